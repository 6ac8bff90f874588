#!/bin/sh
# Perdura's library beside redb, fjall, sled, LMDB and RocksDB: --quick takes five minutes; --help shows the options.
# Needs cargo and a C compiler. RocksDB is linked where its shared library and libclang are found (Debian: librocksdb-dev
# libclang-dev); ROCKSDB=no leaves it out, ROCKSDB=yes insists, and then compiles it where there is no library.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO_TARGET_DIR

# The folder of the shared library, if there is one.
rocksdb=
for file in /usr/lib/librocksdb.so /usr/lib64/librocksdb.so /usr/lib/*/librocksdb.so; do
    if [ -e "$file" ] && [ -e /usr/include/rocksdb/c.h ]; then
        rocksdb=$(dirname "$file")
        export ROCKSDB_LIB_DIR="$rocksdb" ROCKSDB_INCLUDE_DIR=/usr/include
    fi
done

has_libclang() {
    ls /usr/lib/llvm-*/lib/libclang[-.]*so* /usr/lib/libclang[-.]*so* /usr/lib/*/libclang[-.]*so* 2>/dev/null |
        grep -qv libclang-cpp
}

features=
case ${ROCKSDB:-auto} in
no) ;;
yes) features=rocksdb ;;
*)
    if [ -n "$rocksdb" ] && has_libclang; then
        features=rocksdb
    else
        echo "RocksDB is left out: it needs its library and libclang (Debian: librocksdb-dev libclang-dev)" >&2
    fi
    ;;
esac
cargo build --release --quiet --manifest-path "$root/benches/embedded/Cargo.toml" --features "$features"
cd "$root"
exec "$CARGO_TARGET_DIR/release/embedded" "$@"
