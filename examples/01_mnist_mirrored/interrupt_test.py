"""Ctrl-C in the middle of training: runs a program on a terminal of its own, waits until its progress bar moves,
types Ctrl-C, and expects exit status 130 and the terminal's settings and colour as they were."""

import os
import pty
import select
import sys
import termios
import time

SECONDS = 90

child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
before = termios.tcgetattr(terminal)
deadline = time.monotonic() + SECONDS
output = b""
typed = False
ended = False
while time.monotonic() < deadline:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            output += os.read(terminal, 65536)
        except OSError:  # the program has closed its side
            ended = True
    if not typed and output.count("━".encode()) > 100:
        after_start = termios.tcgetattr(terminal)
        os.write(terminal, b"\x03")
        typed = True
    if ended:
        break
if not ended:
    os.kill(child, 9)
after = termios.tcgetattr(terminal) if not ended else after_start
_, status = os.waitpid(child, 0)
code = os.waitstatus_to_exitcode(status)
text = output.decode(errors="replace")
print(text[-500:])


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


expect(typed, "a progress bar that moves")
expect(ended, f"an end within {SECONDS} s")
expect(code == 130, f"exit status 130, got {code}")
expect(text.rfind("\x1b[0m") > text.rfind("\x1b[3"), "the terminal's own colour in the end")
expect("━" not in text.rstrip().splitlines()[-1], "the bar on a line of its own")
expect(after == before, "the terminal's settings as they were")
expect("interrupted by Ctrl-C" in text, "a message")
print("passed")
