"""Spectrograms of real Keras -> keras_layers_spectrograms.json."""

from keras_layer_cases import case, write  # isort: skip
from keras import layers

S = layers.STFTSpectrogram
signal = (2, 40, 2)
for mode in ("log", "magnitude", "psd", "real", "imag", "angle", "stft"):
    case(f"stft_{mode}", S(mode=mode, frame_length=8), signal, free=(1,))
case("stft_step", S(frame_length=8, frame_step=3, fft_length=16), signal)
case("stft_same", S(frame_length=8, frame_step=3, padding="same", mode="magnitude"), (2, 41, 1))
case("stft_expanded", S(frame_length=8, expand_dims=True), signal)
case("stft_first", S(frame_length=8, data_format="channels_first"), (2, 2, 40))
case("stft_first_expanded", S(frame_length=8, data_format="channels_first", expand_dims=True, mode="stft"), (2, 2, 40))
for window in ("hann", "hamming", "blackman", "bartlett", "boxcar", None):
    for scaling in ("density", "spectrum", None):
        for periodic in (False, True):
            if window in ("hann", None) or periodic and scaling == "density":
                case(f"stft_{window}_{scaling}_{periodic}",
                     S(mode="real", frame_length=9, window=window, scaling=scaling, periodic=periodic), (1, 20, 1), weights=False)
case("stft_imag_initial", S(mode="imag", frame_length=8), (1, 20, 1), weights=False)

# Gradients of what is cut at a decibel differ between a maximum's two sides.
M = layers.MelSpectrogram
small = dict(fft_length=64, sequence_stride=16, num_mel_bins=6, sampling_rate=800, gradients=False)


def mel(name, shape=(2, 100), **options):
    options = {**small, **options}
    gradients = options.pop("gradients")
    case(name, M(**options), shape, gradients=gradients, batch=len(shape) > 1)


mel("mel")
mel("mel_one_signal", (100,), power_to_db=False)
mel("mel_power", power_to_db=False)
mel("mel_magnitude", power_to_db=False, mag_exp=1.0)
mel("mel_frames", sequence_length=40, window="hamming")
mel("mel_range", min_freq=50.0, max_freq=300)
mel("mel_decibels", top_db=10.0, ref_power=2.0, min_power=1e-3)
mel("mel_no_window", window=None)
write("spectrograms", tolerance=1e-4)
