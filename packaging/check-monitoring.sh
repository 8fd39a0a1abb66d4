#!/bin/sh
# Checks the alerts, and that the alerts and the dashboard ask for metrics that a real run has: packaging/check-monitoring.sh [HISTEQD]
#
# Needs promtool (Debian's prometheus) and python3.
set -eu
cd "$(dirname "$0")/.."
histeqd=${1:-target/release/histeqd}
folder=$(mktemp -d)
service=
end() {
    [ -z "$service" ] || { kill "$service" && wait "$service" || true; }
    rm -rf "$folder"
}
trap end EXIT

(
    cd packaging/monitoring
    promtool check rules alerts.yml
    promtool check config prometheus.yml
    promtool test rules alerts-test.yml
    python3 make-dashboard.py | cmp - dashboard.json
)

mkdir "$folder/in" "$folder/out"
cp examples/inbox/*.* "$folder/in"
"$histeqd" --watch "$folder/in" --out "$folder/out" --quiet &
service=$!
waited=0
until "$histeqd" status "$folder/out" --json 2>/dev/null | grep -q '"done":[1-9]'; do
    waited=$((waited + 1))
    [ $waited -lt 60 ] || { echo 'the service did nothing in 30 s' >&2 && exit 1; }
    sleep 0.5
done
python3 - "$folder/out/.histeqd/socket" >"$folder/metrics" <<'PYTHON'
import socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect(sys.argv[1])
    asked.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    answer = b''.join(iter(lambda: asked.recv(65536), b''))
sys.stdout.buffer.write(answer.split(b'\r\n\r\n', 1)[1])
PYTHON
missing=0
for name in $(grep -ohE 'histeqd_[a-z_]+' packaging/monitoring/alerts.yml packaging/monitoring/dashboard.json | sort -u); do
    case $name in
    # Only where there is a GPU.
    histeqd_device_busy_seconds_total) continue ;;
    esac
    grep -qE "^${name}[{ ]" "$folder/metrics" || { echo "no run has the metric $name" >&2 && missing=1; }
done
exit $missing
