#!/bin/sh
# Runs the tests and benchmarks of this folder on the GPU of this machine, all of them whatever
# fails, and writes a log of each and report.json.
#
#   ./run                   everything, logs into out/
#   ./run --out DIR         logs into DIR
#   ./run --only mem        the suites whose name begins with this; may be given several times
#   ./run --list            their names
exec "$(dirname "$0")/xtask" gpu-suites --bundle "$(dirname "$0")" "$@"
