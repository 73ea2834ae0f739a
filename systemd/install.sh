#!/bin/sh
# Install Wattpack as a service from the checkout of this script. Run it again to upgrade or repair.
set -eu
umask 022

here=$(cd "$(dirname "$0")" && pwd)
checkout=$(dirname "$here")
venv=/opt/wattpack
settings=/etc/wattpack
units=/etc/systemd/system
engine_group=docker
power_group=wattpack-power

usage() {
    cat <<'TEXT'
systemd/install.sh [--role agent|collector|both] [--wheels DIR]    install, upgrade or repair
systemd/install.sh [--role agent|collector|both] --uninstall       uninstall; keeps settings and data

--role     what to run on this host (default: both)
--wheels   install the dependencies from a directory of wheels instead of the package index
PYTHON=... Python interpreter to use, 3.11 or newer (default: python3)
TEXT
}

fail() {
    echo "install: $*" >&2
    exit 2
}

systemd_runs() {
    [ -d /run/systemd/system ]
}

# If systemd is not running (a chroot, an image build), units are linked for its next start.
offline_systemctl() {
    SYSTEMD_OFFLINE=1 systemctl "$@"
}

make_venv() {
    "$venv/bin/python" -c '' 2>/dev/null && return
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null || fail "no $python found: install Python 3.11 or newer, or set PYTHON to another one"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$("$python" --version) is too old: install Python 3.11 or newer, or set PYTHON to another one"
    rm -rf "$venv"
    "$python" -m venv "$venv" >/dev/null ||
        fail "$python cannot create a virtual environment: install its venv module (Debian: apt-get install python3-venv)"
}

pip() {
    "$venv/bin/python" -m pip -qq --disable-pip-version-check --no-input install --no-cache-dir --no-deps "$@"
}

install_packages() {
    if [ -n "$wheels" ]; then
        [ -d "$wheels" ] || fail "$wheels is not a directory: set --wheels to one with the wheels of locks/run.txt"
        pip --no-index --find-links "$wheels" --require-hashes -r "$checkout/locks/run.txt" ||
            fail "cannot install the packages from $wheels: fill it with pip download -r locks/run.txt -d $wheels"
    else
        pip --require-hashes -r "$checkout/locks/run.txt" ||
            fail "cannot install the packages: see above; without a package index, use --wheels"
    fi
    # The lock contains the build backend as well, so this step downloads nothing.
    pip --no-build-isolation --force-reinstall "$checkout" || fail "cannot build Wattpack from $checkout: see above"
}

install_unit() {
    unit=wattpack-$1.service
    [ -e "$settings/$1.toml" ] || install -D -m 644 "$here/$1.toml" "$settings/$1.toml"
    install -D -m 644 "$here/$unit" "$units/$unit"
    if [ "$1" = agent ]; then
        create_power_group
        join_engine_group
    fi
    if systemd_runs; then
        systemctl daemon-reload
        systemctl -q enable "$unit"
        systemctl restart "$unit" || fail "$unit is installed but did not start: see journalctl -u $unit"
    else
        offline_systemctl -q enable "$unit"
    fi
}

# Only the agent is a member, while it runs: members can read the energy counters of this host.
create_power_group() {
    getent group "$power_group" >/dev/null || groupadd --system "$power_group" ||
        fail "cannot create the group $power_group: see above"
}

# A unit with a group that does not exist does not start, so it is added only if it exists.
join_engine_group() {
    drop_in=$units/wattpack-agent.service.d/engine-group.conf
    if getent group "$engine_group" >/dev/null; then
        mkdir -p "$(dirname "$drop_in")"
        printf '[Service]\nSupplementaryGroups=%s\n' "$engine_group" >"$drop_in"
    else
        rm -f "$drop_in"
        echo "install: there is no group $engine_group, so containers are listed by ID; run this again after installing Docker" >&2
    fi
}

uninstall_unit() {
    unit=wattpack-$1.service
    [ -e "$units/$unit" ] || return 0
    if systemd_runs; then
        systemctl -q disable --now "$unit"
    else
        offline_systemctl -q disable "$unit"
    fi
    rm -f "$units/$unit" "$units/$unit.d/engine-group.conf"
    [ ! -d "$units/$unit.d" ] || rmdir --ignore-fail-on-non-empty "$units/$unit.d"
    ! systemd_runs || systemctl daemon-reload
}

role=both
wheels=
action=install
while [ $# -gt 0 ]; do
    case $1 in
    --role | --wheels)
        [ $# -ge 2 ] || fail "$1 needs a value: see --help"
        [ "$1" = --role ] && role=$2 || wheels=$2
        shift
        ;;
    --uninstall) action=uninstall ;;
    --help | -h)
        usage
        exit 0
        ;;
    *) fail "$1 is not an option: see --help" ;;
    esac
    shift
done
case $role in
agent | collector) roles=$role ;;
both) roles="collector agent" ;;
*) fail "$role is not a role: use agent, collector or both" ;;
esac
[ "$(id -u)" = 0 ] || fail "only root can install services: run this with sudo"
command -v systemctl >/dev/null || fail "no systemctl found: Wattpack needs systemd to run as a service"

if [ "$action" = uninstall ]; then
    for one in $roles; do uninstall_unit "$one"; done
    [ -e "$units/wattpack-agent.service" ] || [ -e "$units/wattpack-collector.service" ] || rm -rf "$venv"
    echo "install: removed ($role); kept: $settings, /var/lib/wattpack, /var/lib/wattpack-agent, the group $power_group"
else
    make_venv
    install_packages
    for one in $roles; do install_unit "$one"; done
    echo "install: $("$venv/bin/wattpack" --version) is installed ($role); settings are in $settings"
fi
