"""DeepXDE's inverse problem, a network for u and two trainable numbers τ: deepxde_pinn.py PROBLEM.npz OUT.npz BUDGET.

As its experts would set it up. u = w·network, w an approximate distance to the outline (Sukumar & Srivastava, 2022), so
that the boundary is exact; readings weighed by 1/σ² and the prior of τ as a loss, so that the minimum is the mode of
the posterior; Adam, then L-BFGS. The weight of the equation is tried at three values, each on a sixth of the budget
with a fifth of the readings left out, which it is chosen by. It gives a point, no posterior. Leaves τ on its way.
"""

import os
import sys
import time

os.environ.setdefault("DDE_BACKEND", "tensorflow")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import deepxde as dde
import numpy as np
import tensorflow as tf

EVERY, WEIGHTS = 200, (1e2, 1e3, 1e4)
MOST = 10**6  # steps: the budget ends them


class Watch(dde.callbacks.Callback):
    """τ every so many steps; stops when its time is over."""

    def __init__(self, tau, begun):
        super().__init__()
        self.tau, self.begun, self.until, self.path, self.times = tau, begun, np.inf, [], []

    def on_epoch_end(self):
        if self.model.train_state.iteration % EVERY == 0:
            self.look()

    def look(self):
        self.path.append([float(t) for t in self.tau])
        self.times.append(time.perf_counter() - self.begun)
        if self.times[-1] > self.until:
            self.model.stop_training = True


def distance_to(outline):
    """w(x) [n, 1]: zero on the outline and smooth inside, about the distance near it."""
    first = tf.constant(outline, tf.float32)
    second = tf.roll(first, -1, axis=0)
    length = tf.norm(second - first, axis=1)

    def w(x):
        away = x[:, None] - first
        along, middle = (second - first) / length[:, None], (first + second) / 2
        line = away[..., 0] * along[:, 1] - away[..., 1] * along[:, 0]
        trim = ((length / 2) ** 2 - tf.reduce_sum((x[:, None] - middle) ** 2, axis=-1)) / length
        near = tf.sqrt(line**2 + ((tf.sqrt(trim**2 + line**4) - trim) / 2) ** 2 + 1e-12)
        return 1 / tf.reduce_sum(1 / near, axis=1, keepdims=True)

    return w


class Pinn:
    def __init__(self, given, readings, weight, begun):
        dde.config.set_random_seed(0)
        a, f, sigma = (float(given[name]) for name in ("a", "source", "sigma"))
        self.tau = tau = [dde.Variable(0.0), dde.Variable(0.0)]

        def equation(x, u):
            u_x, u_y = (dde.grad.jacobian(u, x, i=0, j=j) for j in (0, 1))
            u_xx, u_yy = (dde.grad.hessian(u, x, i=j, j=j) for j in (0, 1))
            return -a * (u_xx + u_yy) + tau[0] * u_x + tau[1] * u_y - f

        x, y = given["sensors"][readings], given["y"][readings, None]
        region = dde.geometry.Polygon(given["outline"].tolist())
        of = lambda k: lambda x, u, _: tau[k] + 0 * u  # noqa: E731
        prior = [dde.icbc.PointSetOperatorBC(x[:1], np.zeros((1, 1)), of(k)) for k in (0, 1)]
        data = dde.data.PDE(region, equation, [dde.icbc.PointSetBC(x, y), *prior], num_domain=2000)
        net = dde.nn.FNN([2] + 3 * [48] + [1], "tanh", "Glorot uniform")
        w = distance_to(given["outline"])
        net.apply_output_transform(lambda x, u: w(x) * u)
        self.model, self.watch = dde.Model(data, net), Watch(tau, begun)
        self.weights = [weight, len(y) / (2 * sigma**2), 0.5, 0.5]

    def train(self, adam, lbfgs):
        """So many seconds of each; τ last."""
        per_step = np.nan
        for optimiser, seconds in (("adam", adam), ("L-BFGS", lbfgs)):
            if not seconds:
                continue
            begun = time.perf_counter()
            self.watch.until = begun - self.watch.begun + seconds
            rate = {"lr": 1e-3} if optimiser == "adam" else {}
            if not rate:  # it runs to its end uninterrupted: as many steps as the time allows, two gradients each
                dde.optimizers.set_LBFGS_options(maxiter=max(int(seconds / (2 * per_step)), 10))
            more = {"loss_weights": self.weights, "external_trainable_variables": self.tau}
            self.model.compile(optimiser, **rate, **more)
            self.model.train(iterations=MOST if rate else None, callbacks=[self.watch], display_every=MOST, verbose=0)
            self.watch.look()
            per_step = (time.perf_counter() - begun) / self.model.train_state.step

    def misfit(self, x, y):
        return float(np.mean((self.model.predict(x)[:, 0] - y) ** 2))


def main(problem, out, budget):
    given = np.load(problem)
    begun = time.perf_counter()
    left_out = np.arange(len(given["y"])) % 5 == 0
    tried = []
    for weight in WEIGHTS:
        pinn = Pinn(given, ~left_out, weight, begun)
        pinn.train(budget / 6, 0)
        tried.append(pinn.misfit(given["sensors"][left_out], given["y"][left_out]))
    chosen = WEIGHTS[int(np.argmin(tried))]
    pinn = Pinn(given, slice(None), chosen, begun)
    ready = time.perf_counter() - begun
    pinn.train(budget / 3, budget / 6)
    np.savez(out, path=pinn.watch.path, times=pinn.watch.times, setup=ready, weight=chosen, version=dde.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
