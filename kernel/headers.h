/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* What most of the kernel's files include: compiled once. See docs/decisions/kernel.md. */
#include <linux/compiler-version.h>
#include <linux/kconfig.h>
#include <linux/compiler_types.h>
#ifdef FASTOPEN_PLAIN
#error a file that wants no precompiled header
#endif
/* Some inline function names the file it is in when it complains; here that is no file. */
#define KBUILD_MODNAME "linux"
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/fs.h>
#include <linux/syscalls.h>
#include <linux/interrupt.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/device.h>
#include <linux/security.h>
#include <linux/nsproxy.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>
#undef KBUILD_MODNAME
