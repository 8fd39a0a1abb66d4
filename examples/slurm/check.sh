#!/usr/bin/env bash
# Runs both examples under Slurm and compares what they make with a local run: examples/slurm/check.sh [HISTEQD]
#
# Starts a cluster of its own, with all its nodes on this machine, in a temporary folder, and stops it. Needs munge, slurmctld, slurmd, slurm-client and
# nats-server, but neither root nor systemd; says so and does nothing where one of them is missing, and fails then if HISTEQD_REQUIRE_SERVERS is set.
set -euo pipefail
histeqd=$(realpath "${1:-target/release/histeqd}")
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin
skip() {
    echo "examples/slurm/check.sh: skipped, because $1" >&2
    [ -z "${HISTEQD_REQUIRE_SERVERS:-}" ] && exit 0 || exit 1
}
for program in munged mungekey slurmctld slurmd sbatch nats-server; do
    command -v "$program" >/dev/null || skip "$program is missing"
done
getent hosts "$(hostname)" >/dev/null || skip "this machine does not know its own name, $(hostname)"

place=$(mktemp -d)
started=()
finish() {
    local code=$?
    # Jobs of this cluster alone, should there be another; they go before what has to end them.
    if [ -e "$place/slurm.conf" ]; then
        export SLURM_CONF=$place/slurm.conf
        scancel --quiet --user="$(id -un)" 2>/dev/null || true
        for _ in $(seq 50); do
            [ -n "$(squeue --noheader 2>/dev/null)" ] || break
            sleep 0.2
        done
    fi
    # The last one first: slurmd tells slurmctld, and both ask munged.
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do
        kill "${started[i]}" 2>/dev/null || true
        wait "${started[i]}" 2>/dev/null || true
    done
    [ "$code" = 0 ] || tail -n 20 "$place"/*.log >&2
    rm -rf "$place"
}
trap finish EXIT
fail() { echo "examples/slurm/check.sh: $1" >&2 && exit 1; }
# Tries a command for two minutes.
until_so() {
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    fail "in vain for two minutes: $*"
}

# Everybody has to reach munged's socket. The folder is no one else's to write.
chmod 755 "$place"
mkdir "$place/bin" "$place/spool" "$place/state" "$place/jobs"
# Where LOST names a node, its worker is killed at its start, and the others begin only when that is known.
cat >"$place/bin/histeqd" <<END
#!/bin/sh
if [ "\$1" = work ] && [ -n "\${LOST-}" ]; then
    [ "\$SLURMD_NODENAME" != "\$LOST" ] || kill -KILL \$\$
    sleep 3
fi
exec '$histeqd' "\$@"
END
chmod +x "$place/bin/histeqd"
export PATH=$place/bin:$PATH SLURM_CONF=$place/slurm.conf CUDA_VISIBLE_DEVICES=

# Sessions of their own: Ctrl-C is for this script, which stops them in their order.
mungekey --create --keyfile "$place/munge.key"
setsid munged --foreground --socket "$place/munge.socket" --key-file "$place/munge.key" --pid-file "$place/munged.pid" --seed-file "$place/munge.seed" \
    --log-file "$place/munged.log" >"$place/munged.out" 2>&1 &
started+=($!)
until_so munge --socket "$place/munge.socket" --no-input

nodes=3
# Ports that nobody has, one for slurmctld and one for each node.
taken() { for one in $(seq "$port" $((port + nodes))); do (: <"/dev/tcp/127.0.0.1/$one") 2>/dev/null && return; done; return 1; }
port=$((10000 + RANDOM % 9000))
while taken; do port=$((10000 + RANDOM % 9000)); done
cat >"$SLURM_CONF" <<END
ClusterName=check
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket
CredType=cred/munge
StateSaveLocation=$place/state
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd-%n.pid
SlurmdSpoolDir=$place/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,batch_sched_delay=1
MpiDefault=none
ReturnToService=2
# The queues' ports go by it.
FirstJobId=$((1 + RANDOM))
# Nodes that claim more than this machine has, so that it need not be large.
SlurmdParameters=config_overrides
NodeName=node[1-$nodes] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=16 RealMemory=32000
PartitionName=all Nodes=ALL Default=YES State=UP
END
setsid slurmctld -D -L "$place/slurmctld.log" >/dev/null 2>&1 &
started+=($!)
for node in $(seq "$nodes"); do
    setsid slurmd -D -N "node$node" -L "$place/slurmd-$node.log" >/dev/null 2>&1 &
    started+=($!)
done
idle() { [ "$(sinfo --noheader --Node --states=idle --format=%N | sort -u | wc -l)" = "$nodes" ]; }
until_so idle

# More pictures than there are tasks, so that each has some.
for copy in $(seq 4); do
    mkdir -p "$place/inbox"
    cp -r examples/inbox "$place/inbox/$copy"
done
histeqd "$place/inbox" --out "$place/local" --quiet
cp -r "$place/inbox" "$place/inbox-broken"
echo 'no picture' >"$place/inbox-broken/broken.png"
# Submits a script with a folder of that name for its outputs and log: job NAME INBOX SBATCH'S ARGUMENTS... SCRIPT
declare -A jobs
job() {
    local name=$1 inbox=$2
    shift 2
    mkdir -p "$place/jobs/$name"
    jobs[$name]=$(sbatch --parsable --chdir="$place/jobs/$name" --mem=0 --cpus-per-task=2 "$@" "$place/$inbox" "$place/$name")
}
queue=(--nodes="$nodes" examples/slurm/queue.sbatch)
job array inbox --array=0-3 examples/slurm/array.sbatch
job queue inbox "${queue[@]}"
LOST=node2 job lost inbox "${queue[@]}"
job broken inbox-broken "${queue[@]}"
ended() { [ -z "$(squeue --noheader)" ]; }
until_so ended
for name in "${!jobs[@]}"; do
    code=$(scontrol show job --oneliner "${jobs[$name]}" | grep -o 'ExitCode=[0-9:]*' | sort -u)
    [ "$code" = "ExitCode=$([ "$name" = broken ] && echo 1 || echo 0):0" ] || { cat "$place/jobs/$name"/* >&2 && fail "$name: the job ended with $code"; }
    diff -r "$place/local" "$place/$name" || fail "$name: other outputs than those of a local run"
done
grep -q Killed "$place"/jobs/lost/* || fail 'no worker was lost'
grep -q 'broken.png.*: ' "$place"/jobs/broken/* || fail 'the log does not name the picture that failed'
echo "the array and the queue make what a local run makes, on $nodes nodes"
