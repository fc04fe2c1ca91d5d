"""DeepXDE's inverse problem, a network for u and two trainable numbers τ: deepxde_pinn.py PROBLEM.npz OUT.npz BUDGET.

As its experts would set it up. u = w·network, w vanishing on the star's outline as in notebook 03, so that the boundary
is exact. Readings are weighted by 1/σ² and the prior of τ is a loss, so that the minimum is the mode of the posterior.
Adam for two thirds of the budget, then L-BFGS. The weight of the equation and Adam's rate are chosen first, among six
pairs, each tried on a sixth of the budget by a fifth of the readings left out; the clock starts after that, as the
settings of the other methods were chosen beforehand, too. It gives a point, no posterior. Leaves τ on its way.
"""

import os
import sys
import time

os.environ["DDE_BACKEND"] = "tensorflow"
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import deepxde as dde
import numpy as np
import tensorflow as tf

EVERY = 200
TRIED = [(weight, rate) for weight in (1e2, 1e3, 1e4) for rate in (1e-3, 5e-3)]
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


def factor(x):
    """w(x) [n, 1] = 1 − (|x|/r(θ))⁴, zero on the outline r(θ) = 1 + 0.3 sin 5θ."""
    angle, square = tf.atan2(x[:, 1:], x[:, :1]), tf.reduce_sum(x**2, axis=1, keepdims=True)
    return 1 - square**2 / (1 + 0.3 * tf.sin(5 * angle)) ** 4


class Pinn:
    def __init__(self, given, readings, weight, rate):
        begun = time.perf_counter()
        dde.config.set_random_seed(0)
        a, f, sigma = (float(given[name]) for name in ("a", "source", "sigma"))
        self.tau = tau = [dde.Variable(np.float64(0.0)) for _ in (0, 1)]

        def equation(x, u):
            u_x, u_y = (dde.grad.jacobian(u, x, i=0, j=j) for j in (0, 1))
            u_xx, u_yy = (dde.grad.hessian(u, x, i=j, j=j) for j in (0, 1))
            return -a * (u_xx + u_yy) + tau[0] * u_x + tau[1] * u_y - f

        x, y = given["sensors"][readings], given["y"][readings, None]
        region = dde.geometry.Polygon(given["outline"].tolist())
        of = lambda k: lambda x, u, _: tau[k] + 0 * u  # noqa: E731
        prior = [dde.icbc.PointSetOperatorBC(x[:1], np.zeros((1, 1)), of(k)) for k in (0, 1)]
        data = dde.data.PDE(region, equation, [dde.icbc.PointSetBC(x, y), *prior], num_domain=1000)
        net = dde.nn.FNN([2] + 3 * [32] + [1], "tanh", "Glorot uniform")
        net.apply_output_transform(lambda x, u: factor(x) * u)
        self.model, self.watch = dde.Model(data, net), Watch(tau, begun)
        self.rate, self.weights = rate, [weight, len(y) / (2 * sigma**2), 0.5, 0.5]

    def train(self, adam, lbfgs):
        """So many seconds of each; τ last."""
        self.watch.until = time.perf_counter() - self.watch.begun + adam
        self._go(MOST, "adam", lr=self.rate)
        if lbfgs:  # it runs to its end uninterrupted: a few steps tell how many there is time for
            took = self._lbfgs(20)
            self._lbfgs(int((lbfgs - took) / (took / 20)))

    def _lbfgs(self, steps):
        begun = time.perf_counter()
        dde.optimizers.set_LBFGS_options(maxiter=max(steps, 1))
        self._go(None, "L-BFGS")
        return time.perf_counter() - begun

    def _go(self, steps, optimiser, **rate):
        more = {"loss_weights": self.weights, "external_trainable_variables": self.tau}
        self.model.compile(optimiser, **rate, **more)
        self.model.train(iterations=steps, callbacks=[self.watch], display_every=MOST, verbose=0)
        self.watch.look()

    def misfit(self, x, y):
        return float(np.mean((self.model.predict(x)[:, 0] - y) ** 2))


def main(problem, out, budget):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    dde.config.set_default_float("float64")  # as its documentation advises for L-BFGS
    given = np.load(problem)
    left_out = np.arange(len(given["y"])) % 5 == 0
    tried = []
    for pair in TRIED:
        pinn = Pinn(given, ~left_out, *pair)
        pinn.train(budget / 6, 0)
        tried.append(pinn.misfit(given["sensors"][left_out], given["y"][left_out]))
    chosen = TRIED[int(np.argmin(tried))]
    pinn = Pinn(given, slice(None), *chosen)
    pinn.train(budget * 2 / 3, budget / 3)
    np.savez(out, path=pinn.watch.path, times=pinn.watch.times, setup=0.0, chosen=chosen, version=dde.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
