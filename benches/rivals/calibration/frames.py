"""Frames of a recorded drive as inputs of openpilot 0.8's driver monitoring networks, for calibrations.

Run, from the root of the repository:

    python3 -m venv /tmp/frames
    /tmp/frames/bin/pip install -r benches/rivals/calibration/requirements.txt
    /tmp/frames/bin/python benches/rivals/calibration/frames.py qcamera.ts frames.safetensors
    cargo run --release --example calibrate_model -- dmonitoring.onnx --batches frames.safetensors --precision fp4

Every 25th frame of the road camera, or every N-th with N as a third argument: no recording of a driver is public, and what calibration needs is pictures of a
real camera. The middle of the picture, half as wide as high, is scaled bilinearly to 320 x 640 and packed as the
networks take it: planes Y[2r, 2c], Y[2r + 1, 2c], Y[2r, 2c + 1], Y[2r + 1, 2c + 1], U, V, as (value - 128) / 128, which
f16 holds exactly. Case N is the N-th of these frames; calibrate_model holds back every second one.
"""

import sys

import av
import numpy as np
from safetensors.numpy import save_file

HEIGHT, WIDTH = 640, 320


def plane(plane, height, width):
    """A plane of a decoded picture without the padding of its rows."""
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:height, :width]


def scaled(picture, height, width):
    """Bilinear, by the centres of pixels, rounded to bytes."""

    def places(length, scaled_length):
        at = (np.arange(scaled_length) + 0.5) * length / scaled_length - 0.5
        before = np.clip(np.floor(at).astype(int), 0, length - 2)
        return before, np.clip(at - before, 0, 1)

    rows, down = places(picture.shape[0], height)
    columns, right = places(picture.shape[1], width)
    picture = picture.astype(np.float32)
    down, right = down[:, None], right[None]
    above = picture[rows][:, columns] * (1 - right) + picture[rows][:, columns + 1] * right
    below = picture[rows + 1][:, columns] * (1 - right) + picture[rows + 1][:, columns + 1] * right
    return np.rint(above * (1 - down) + below * down)


def packed(frame):
    """The six planes of one frame, [1, 6, 320, 160]."""
    width = frame.height // 2
    left = (frame.width - width) // 4 * 2
    y, u, v = (
        plane(frame.planes[i], frame.height >> (i > 0), frame.width >> (i > 0)) for i in range(3)
    )
    y = scaled(y[:, left : left + width], HEIGHT, WIDTH)
    u, v = (
        scaled(p[:, left // 2 : (left + width) // 2], HEIGHT // 2, WIDTH // 2) for p in (u, v)
    )
    planes = np.stack([y[0::2, 0::2], y[1::2, 0::2], y[0::2, 1::2], y[1::2, 1::2], u, v])
    return ((planes - 128) / 128).astype(np.float16)[None]


def main(video, output, every=25):
    with av.open(video) as container:
        frames = [
            packed(frame)
            for number, frame in enumerate(container.decode(video=0))
            if number % int(every) == 0
        ]
    save_file({f"case{n}/in/input_img": frame for n, frame in enumerate(frames)}, output)
    print(f"{len(frames)} frames")


if __name__ == "__main__":
    main(*sys.argv[1:])
