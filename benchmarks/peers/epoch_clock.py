"""What the peers that train by Keras's fit share."""

import time


def epoch_clock(keras):
    """Returns a callback whose `seconds` are the last epoch's alone: what fit does before it (iterators, callbacks)
    is paid once a training. @param keras  Keras 3 or tf_keras."""

    class EpochClock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            self.seconds = time.perf_counter() - self.start

    return EpochClock()
