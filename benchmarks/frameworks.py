"""The penalty in networks of PyTorch and JAX, beside TensorFlow: equal losses for equal weights, and what a step costs.

    .venv/bin/python benchmarks/frameworks.py      # those that can be imported; a minute

Installs nothing: put PyTorch and JAX into the environment, or on PYTHONPATH. Writes benchmarks/frameworks.csv, a bar.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

import common
import numpy as np
import pandas as pd

import pdevae
from pdevae._tensorflow import tf

Weights = list[np.ndarray]  # matrix and shift of each layer in turn
_SIZES = (2, 32, 32, 1)
_RATE = 0.05


def problem() -> pdevae.Penalty:
    equation = pdevae.Diffusion(1.0) + pdevae.Transport(np.array([1.0, -0.5])) - pdevae.Source(1.0)
    return pdevae.MultilevelPenalty(pdevae.star(nodes=5000), equation, boundary=0.0)


def weights(seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    pairs = [(rng.normal(size=(n, m)) / np.sqrt(n), 0.1 * rng.normal(size=m)) for n, m in zip(_SIZES, _SIZES[1:])]
    return [part for pair in pairs for part in pair]


def by_torch(penalty: pdevae.Penalty, start: Weights, steps: int) -> list[float]:
    import torch

    class OfPDE(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, seed):
            value, slope = penalty.value_and_gradient(u.detach().numpy(), seed=seed)
            ctx.slope = torch.from_numpy(slope)
            return u.new_tensor(value)

        @staticmethod
        def backward(ctx, upstream):
            return upstream * ctx.slope, None

    layers = [torch.nn.Linear(n, m, dtype=torch.float64) for n, m in zip(_SIZES, _SIZES[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
    with torch.no_grad():
        for layer, w, b in zip(layers, start[::2], start[1::2]):
            layer.weight.copy_(torch.from_numpy(w.T))
            layer.bias.copy_(torch.from_numpy(b))
    optimiser, losses = torch.optim.SGD(model.parameters(), _RATE), []
    for step in range(steps):
        x = torch.from_numpy(penalty.places(seed=(0, step)))
        loss = OfPDE.apply(model(x).T, (0, step))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss))
    return losses


def by_jax(penalty: pdevae.Penalty, start: Weights, steps: int) -> list[float]:
    import jax

    jax.config.update("jax_enable_x64", True)

    def model(params, x):
        for w, b in zip(params[:-2:2], params[1:-2:2]):
            x = jax.numpy.tanh(x @ w + b)
        return (x @ params[-2] + params[-1]).T

    @jax.jit
    def pulled_back(params, x, slope):
        return jax.vjp(lambda params: model(params, x), params)[1](slope)[0]

    params, losses, forward = [jax.numpy.asarray(part) for part in start], [], jax.jit(model)
    for step in range(steps):
        x = penalty.places(seed=(0, step))
        loss, slope = penalty.value_and_gradient(np.asarray(forward(params, x)), seed=(0, step))
        params = [p - _RATE * g for p, g in zip(params, pulled_back(params, x, slope))]
        losses.append(loss)
    return losses


def by_tensorflow(penalty: pdevae.Penalty, start: Weights, steps: int) -> list[float]:
    variables = [tf.Variable(part) for part in start]

    def mu(x, z):
        for w, b in zip(variables[:-2:2], variables[1:-2:2]):
            x = tf.tanh(x @ w + b)
        return tf.transpose(x @ variables[-2] + variables[-1])

    @tf.function
    def step_on(seed):
        with tf.GradientTape() as tape:
            loss = penalty(mu, None, seed)
        for variable, slope in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(_RATE * slope)
        return loss

    return [float(step_on(tf.constant([0, step]))) for step in range(steps)]


TRAINERS: dict[str, Callable[[pdevae.Penalty, Weights, int], list[float]]] = {
    "tensorflow": by_tensorflow,
    "torch": by_torch,
    "jax": by_jax,
}


def main() -> None:
    common.one_thread()
    penalty, rows = problem(), []
    there = [name for name in TRAINERS if importlib.util.find_spec(name)]
    for name in there:
        TRAINERS[name](penalty, weights(), 3)  # compiles
        begun = time.perf_counter()
        losses = TRAINERS[name](penalty, weights(), 200)
        each = 1e3 * (time.perf_counter() - begun) / 200
        rows.append({"framework": name, "first_loss": losses[0], "last_loss": losses[-1], "ms_a_step": each})
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format="%.8g"))
    if len(there) < len(TRAINERS):
        return
    common.save(table, "frameworks")
    off = table[["first_loss", "last_loss"]].div(table.loc[0, ["first_loss", "last_loss"]]).sub(1).abs().max()
    bars = common.Bars("frameworks")
    bars.add(
        "frameworks_loss",
        "PyTorch and JAX with the penalty: loss relative to TensorFlow's for equal weights, and after 200 equal steps",
        "≤ 1e-6",
        f"{off.first_loss:.0e}; {off.last_loss:.0e}",
        bool(off.max() <= 1e-6),
    )
    bars.record()


if __name__ == "__main__":
    main()
