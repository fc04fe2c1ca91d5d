"""DeepXDE's inverse problem, a network for u and two trainable numbers τ: deepxde_pinn.py PROBLEM.npz OUT.npz BUDGET.

Settings as in DeepXDE's own inverse examples: tanh layers, Adam at 1e-3, residual, boundary and readings as three
losses; readings and boundary weighed up, since u is small. It gives a point, no posterior. Leaves τ on its way.
"""

import os
import sys
import time

os.environ.setdefault("DDE_BACKEND", "tensorflow")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import deepxde as dde
import numpy as np

STEPS, EVERY = 40_000, 200


class Watch(dde.callbacks.Callback):
    """τ every so many steps; stops when the budget is spent."""

    def __init__(self, tau, budget):
        super().__init__()
        self.tau, self.budget, self.begun, self.path, self.times = tau, budget, time.perf_counter(), [], []

    def on_epoch_end(self):
        if self.model.train_state.iteration % EVERY:
            return
        self.path.append([float(t) for t in self.tau])
        self.times.append(time.perf_counter() - self.begun)
        if self.times[-1] > self.budget:
            self.model.stop_training = True


def main(problem, out, budget):
    given = np.load(problem)
    begun = time.perf_counter()
    dde.config.set_random_seed(0)
    tau = [dde.Variable(0.0), dde.Variable(0.0)]
    a, f = float(given["a"]), float(given["source"])

    def equation(x, u):
        u_x, u_y = (dde.grad.jacobian(u, x, i=0, j=j) for j in (0, 1))
        u_xx, u_yy = (dde.grad.hessian(u, x, i=j, j=j) for j in (0, 1))
        return -a * (u_xx + u_yy) + tau[0] * u_x + tau[1] * u_y - f

    region = dde.geometry.Polygon(given["outline"].tolist())
    edge = dde.icbc.DirichletBC(region, lambda x: 0.0, lambda _, on_boundary: on_boundary)
    readings = dde.icbc.PointSetBC(given["sensors"], given["y"][:, None])
    data = dde.data.PDE(region, equation, [edge, readings], num_domain=2000, num_boundary=400, anchors=given["sensors"])
    model = dde.Model(data, dde.nn.FNN([2] + 3 * [48] + [1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-3, loss_weights=[1, 100, 1000], external_trainable_variables=tau)
    ready = time.perf_counter() - begun
    watch = Watch(tau, budget)
    model.train(iterations=STEPS, callbacks=[watch], display_every=STEPS, verbose=0)
    np.savez(out, path=watch.path, times=watch.times, setup=ready, version=dde.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
