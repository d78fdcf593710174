#!/bin/sh
# set_sysctls PATH=VALUE...: sets sysctls, and writes a script that restores their earlier values. packetdrill
# sets PACKETDRILL_PID, its own process ID, in the environment of its commands.
restore=/tmp/sysctl_restore_$PACKETDRILL_PID.sh
echo '#!/bin/sh' > "$restore"
chmod +x "$restore"
for setting; do
	path=${setting%%=*}
	printf 'echo "%s" > %s\n' "$(cat "$path")" "$path" >> "$restore"
	echo "${setting#*=}" > "$path" || exit
done
