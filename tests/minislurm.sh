#!/bin/bash
# A Slurm cluster that lives as long as one command: minislurm.sh NODES CPUS COMMAND...
# To be started in namespaces of its own, where it touches nothing outside a temporary folder:
#   root:  unshare -nmpu --fork --mount-proc --kill-child bash minislurm.sh 2 4 srun -n4 hostname
#   user:  unshare -Urnmpu --map-auto --fork --mount-proc --kill-child bash minislurm.sh ...
set -eu
export PATH=$PATH:/usr/sbin:/sbin
nodes=$1 cpus=$2
shift 2
for folder in /run /var/spool /var/log; do mount -t tmpfs none $folder; done
mkdir -p /run/munge /run/slurm /var/log/slurm /var/spool/slurmctld
chmod 755 /run/munge
scratch=$(mktemp -d)
trap 'rm -rf $scratch' EXIT

# With loopback alone getaddrinfo finds no address family: a bridge stands in for a network card.
hostname ctl
ip link set lo up
ip link add br0 type bridge
ip addr add 10.66.0.254/24 dev br0
ip link set br0 up
{
    echo "127.0.0.1 localhost"
    for name in ctl $(seq -f n%g "$nodes"); do echo "10.66.0.254 $name"; done
} > "$scratch/hosts"
mount --bind "$scratch/hosts" /etc/hosts

(umask 077; head -c 128 /dev/urandom > "$scratch/key")
munged --force --key-file="$scratch/key" --seed-file="$scratch/seed" \
    --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \
    --log-file=/var/log/munged.log
export SLURM_CONF=$scratch/slurm.conf
cat > "$SLURM_CONF" <<CONF
ClusterName=mini
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
ReturnToService=2
KillWait=5
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
SlurmdParameters=config_overrides
NodeName=n[1-$nodes] NodeHostname=ctl NodeAddr=127.0.0.1 Port=[17001-$((17000 + nodes))] CPUs=$cpus RealMemory=1000 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
CONF
slurmctld -f "$SLURM_CONF"
for i in $(seq 1 "$nodes"); do
    mkdir -p "/var/spool/slurmd.n$i"
    slurmd -f "$SLURM_CONF" -N "n$i"
done
for _ in $(seq 1 100); do
    [ "$(sinfo -h -N -p debug -t idle -o %N | wc -l)" = "$nodes" ] && break
    sleep 0.1
done
"$@"
