#!/usr/bin/env bash
# The release check: what README says, in a bare Debian 12 that has nothing of this machine (debootstrap, as root).
#
#   scripts/check_release.sh readme     make demo and make test, from a clone of HEAD
#   scripts/check_release.sh deb        the Debian package: installed, the consumer, example 02 and `strata new` built and run
#   scripts/check_release.sh wheel      the wheel, in a virtual environment, the same
#   scripts/check_release.sh            all three
#
# `make package` makes the packages first. Each runs on a copy of the bare system that is thrown away.
#
#   STRATA_BARE=DIR     where the bare system is kept (default: ~/.cache/strata/bare)
#   STRATA_WHEELS=DIR   wheels of libtorch, in place of PyPI
set -euo pipefail
cd "$(dirname "$0")/.."
bare=${STRATA_BARE:-$HOME/.cache/strata/bare}
packages=$PWD/build/package/packages

say() { printf 'check_release: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 2
}

[ "$(id -u)" -eq 0 ] || die "chroot and mount want root"

make_bare() {
  [ -e "$bare/etc/debian_version" ] && return
  command -v debootstrap >/dev/null || apt-get install -qq -y --no-install-recommends debootstrap >/dev/null
  say "making a bare Debian 12 in $bare"
  rm -rf "$bare.partial"
  mkdir -p "$(dirname "$bare")"
  debootstrap --variant=minbase bookworm "$bare.partial" >/dev/null || die "debootstrap failed: see $bare.partial/debootstrap"
  mv "$bare.partial" "$bare"
}

# in_bare_system SCRIPT: runs it with bash in a copy of the bare system, with the inputs of this check in /in.
# The mounts are those of a namespace of its own, and go with it.
in_bare_system() {
  local script=$1 status=0 work
  work=$(mktemp -d)
  mkdir "$work/in"
  cp -r tests/house/consumer examples "$work/in"
  git clone -q . "$work/in/strata"
  if [ -d "$packages" ]; then cp "$packages"/strata[_-]* "$work/in"; fi
  STRATA_WHEELS=${STRATA_WHEELS:-} unshare --mount --pid --fork bash -euo pipefail -s "$bare" "$work" "$script" <<'NAMESPACE' || status=$?
bare=$1 work=$2 script=$3 root=$2/root
mkdir "$root" "$work/top"
mount -t tmpfs tmpfs "$work/top"
mkdir "$work/top/upper" "$work/top/work"
mount -t overlay overlay -o "lowerdir=$bare,upperdir=$work/top/upper,workdir=$work/top/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs sysfs "$root/sys"
mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
# An installer writes this file; debootstrap does not.
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
# Certificates of the machine's network, if it has its own.
mkdir -p "$root/in" "$root/usr/local/share/ca-certificates" "$root/wheels"
find -L /usr/local/share/ca-certificates -name '*.crt' -exec cp -L {} "$root/usr/local/share/ca-certificates/" \;
if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/"; fi
mount --bind "$work/in" "$root/in"
wheels=()
if [ -n "$STRATA_WHEELS" ]; then
  mount --bind "$STRATA_WHEELS" "$root/wheels"
  wheels=(STRATA_WHEELS=/wheels)
fi
exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${wheels[@]}" \
  chroot "$root" bash -euo pipefail -c "$script"
NAMESPACE
  rm -rf "$work"
  return "$status"
}

# What a user does with either package, once it is installed. $prefix: where.
use_it=$(cat <<'SCRIPT'
strata --version
strata engine
cd /in
cmake -S consumer -B /tmp/consumer -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix"
cmake --build /tmp/consumer
/tmp/consumer/consumer
engine=$(strata engine --find)
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
g++ -O1 -Iexamples examples/02_custom_loop/main.cc -o /tmp/custom_loop $(strata engine --cflags) \
  $(pkg-config --cflags --libs strata) $(strata engine --libs)
/tmp/custom_loop --epochs 1 --devices 2
strata new /tmp/first
cmake -S /tmp/first -B /tmp/first/build -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
cmake --build /tmp/first/build
ctest --test-dir /tmp/first/build --output-on-failure
strata launch -n 2 -- /tmp/first/build/custom_loop 2
strata inspect "$prefix/share/strata/datasets/mnist"/t10k-labels*
SCRIPT
)

check_deb() {
  in_bare_system "export DEBIAN_FRONTEND=noninteractive prefix=/usr
apt-get update -qq
apt-get install -qq -y --no-install-recommends /in/strata_*.deb g++ cmake ninja-build python3-pip pkg-config ca-certificates >/dev/null
$use_it"
}

check_wheel() {
  local libraries
  libraries=$(sed -n 's/^PACKAGES = "\(.*\)"/\1/p' scripts/make_wheel.py)
  in_bare_system "export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends $libraries g++ cmake ninja-build python3-venv python3-pip pkg-config ca-certificates >/dev/null
python3 -m venv /opt/venv
. /opt/venv/bin/activate
pip install --quiet --no-index /in/strata_cpp-*.whl
prefix=\$VIRTUAL_ENV
$use_it"
}

check_readme() {
  in_bare_system "export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends git make ca-certificates >/dev/null
cd /in/strata
TIMEFORMAT='check_release: %R s, %U s of the processors for the user and %S s for the system'
time make demo
time make test"
}

make_bare
status=0
for check in "${@:-readme deb wheel}"; do
  for name in $check; do
    case $name in
    readme | deb | wheel) ;;
    *) die "got $name; expected readme, deb or wheel" ;;
    esac
    say "$name"
    SECONDS=0
    if "check_$name"; then say "$name: passed in $SECONDS s"; else
      say "$name: FAILED"
      status=1
    fi
  done
done
exit "$status"
