#!/bin/sh
# set_sysctls PATH=VALUE...: sets them, and leaves a script that sets what was there before. packetdrill gives
# its commands PACKETDRILL_PID, its own process id.
restore=/tmp/sysctl_restore_$PACKETDRILL_PID.sh
echo '#!/bin/sh' > "$restore"
chmod +x "$restore"
for setting; do
	path=${setting%%=*}
	printf 'echo "%s" > %s\n' "$(cat "$path")" "$path" >> "$restore"
	echo "${setting#*=}" > "$path" || exit
done
