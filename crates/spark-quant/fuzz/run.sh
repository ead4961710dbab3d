#!/bin/sh
# Builds one target with coverage instrumentation and runs it: ./run.sh TARGET [libFuzzer options]
set -eu
cd "$(dirname "$0")"
target=$1
shift
RUSTFLAGS="-Cpasses=sancov-module \
 -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
 -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares \
 -Ccodegen-units=1 -Cdebug-assertions" \
    cargo build --release --target "$(rustc -vV | sed -n 's/^host: //p')" --bin "$target"
mkdir -p "corpus/$target"
exec "${CARGO_TARGET_DIR:-target}/$(rustc -vV | sed -n 's/^host: //p')/release/$target" "corpus/$target" "$@"
