"""TensorFlow, imported without its banner; every module of the package takes it from here."""

import contextlib
import functools
import os
import sys
import tempfile

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # TensorFlow Probability and GPflux need Keras 2
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # oneDNN reorders sums: same seed, same numbers


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


def graph(function=None, **options):
    """tf.function without AutoGraph: rewriting all that is called, libraries too, takes as long as tracing it."""
    return tf.function(function, autograph=False, **options)


def repeated(step):
    """A compiled function of start and stop that calls ``step`` with each whole number from one to before the other."""

    @graph(input_signature=2 * [tf.TensorSpec([], tf.int32)])
    def repeat(start, stop):
        def once(number):
            step(number)
            return (number + 1,)

        tf.while_loop(lambda number: number < stop, once, (start,))

    return repeat


__all__ = ["constant_property", "graph", "repeated", "tf"]
