"""TensorFlow, imported without its banner; every module of the package takes it from here."""

import contextlib
import functools
import os
import sys
import tempfile


@contextlib.contextmanager
def _banner_held_back():
    """Hold back what C++ writes to file descriptor 2; on failure it is shown."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(saved, held.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)


with _banner_held_back():
    import tensorflow as tf

    tf.constant(0.0)  # the CPU feature message comes with the first tensor


def constant_property(method):
    """A property computed once, outside any graph that is being traced: for tables of constants."""

    @functools.wraps(method)
    def outside_graphs(self):
        with tf.init_scope():
            return method(self)

    return functools.cached_property(outside_graphs)


def graph(function, jit_compile=False):
    """tf.function without AutoGraph: rewriting all that is called, libraries too, takes as long as tracing it.

    PDEVAE_XLA=0 in the environment: without XLA, which at the sizes of tests compiles for longer than it saves.
    """
    jit_compile = jit_compile and os.environ.get("PDEVAE_XLA") != "0"
    return tf.function(function, autograph=False, jit_compile=jit_compile)


__all__ = ["constant_property", "graph", "tf"]
