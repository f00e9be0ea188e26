#!/usr/bin/env bash
# Killed in the middle and started again, the program ends with the weights of a run that was left alone.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
steps=200

whole=$("$program" "$work/whole" $steps | grep weights)

# SIGKILL as soon as there is a checkpoint, then to the end.
"$program" "$work/run" $steps >/dev/null &
pid=$!
for _ in $(seq 1200); do
  [ -e "$work/run/ckpt-1/manifest.json" ] && break
  sleep 0.05
done
kill -KILL $pid 2>/dev/null || true
wait $pid || true
last=$("$program" "$work/run" $steps)
echo "$last"
grep -q "resumes at step" <<<"$last"
[ "$(grep weights <<<"$last")" = "$whole" ] || {
  echo "got other weights; expected $whole" >&2
  exit 1
}
