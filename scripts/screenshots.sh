#!/bin/bash
# Takes the pictures of docs/images: example 08 on a terminal, in the middle of an epoch, and its curves in TensorBoard.
#
#     scripts/screenshots.sh [BUILD_FOLDER]      by default build/release, with the examples built
#
# Wants xterm, a virtual display, ImageMagick and Chromium (a line to install them is printed), and puts TensorBoard into
# ~/.cache/strata/tensorboard. TensorBoard brings fonts and scripts along; nothing is fetched from anywhere else.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/release}")
images=$PWD/docs/images
work=$(mktemp -d)
processes=()
trap 'kill "${processes[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT

for tool in xterm Xvfb import convert chromium; do
  command -v $tool >/dev/null && continue
  echo "screenshots: there is no $tool; apt-get install --no-install-recommends xterm xvfb imagemagick chromium fonts-dejavu-core" >&2
  exit 1
done
tensorboard=$HOME/.cache/strata/tensorboard
if ! [ -x "$tensorboard/bin/tensorboard" ]; then
  python3 -m venv "$tensorboard"
  "$tensorboard/bin/pip" install --quiet "tensorboard==2.21.*" "setuptools<81"
fi

# Waits until a command succeeds, at most so many seconds.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS > end)); then
      echo "screenshots: waited in vain for: $*" >&2
      exit 1
    fi
    sleep 0.05
  done
}

# A terminal of 128 columns. `script` is its pseudo-terminal, and tells what has been written so far.
cat >"$work/session" <<END
cd "$work"
echo "\$ build/release/examples/08_keras run --epochs 6"
script -qfec "$build/examples/08_keras run --epochs 6" written
touch done
read -r
END
export STRATA_DATASETS=$PWD/datasets
in_the_middle() { tr '\r\n' '  ' <"$work/written" | grep -aq 'Epoch 5/6.*[3-6][0-9]/100'; }
Xvfb -displayfd 3 -screen 0 1100x960x24 3>"$work/display" 2>/dev/null &
processes+=($!)
await 10 test -s "$work/display"
DISPLAY=:$(cat "$work/display")
export DISPLAY
xterm -geometry 128x52 -b 6 -bw 0 -fa 'DejaVu Sans Mono' -fs 9 -bg white -fg black -e bash "$work/session" &
processes+=($!)
await 300 in_the_middle
import -window root "$work/terminal.png"
await 300 test -f "$work/done"
convert "$work/terminal.png" -trim +repage -trim +repage -bordercolor white -border 8 +dither -colors 48 "$images/progress_bar.png"

"$tensorboard/bin/tensorboard" --logdir "$work/run/logs" --port 6461 >"$work/tensorboard.log" 2>&1 &
processes+=($!)
await 60 sh -c 'curl -s localhost:6461/data/runs | grep -q validation'
chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1000 --virtual-time-budget=20000 \
  --user-data-dir="$work/chromium" --screenshot="$work/tensorboard.png" 'http://localhost:6461/?smoothing=0#timeseries' 2>/dev/null
convert "$work/tensorboard.png" +dither -colors 64 "$images/tensorboard.png"
ls -l "$images"
