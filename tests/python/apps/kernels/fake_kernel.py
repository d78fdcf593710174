"""Fake kernel sources that build in a moment. The program `linux` acts like a kernel in the trial boot."""

from pathlib import Path

MAKEFILE = """
kernelversion:
	@echo {version}
allnoconfig:
	@cp "$$KCONFIG_ALLCONFIG" .config
	@echo 'CONFIG_CC_VERSION_TEXT="gcc (Test) 1.2"' >> .config
	@sed -i '/{unknown}/d' .config
linux: main.c
	@echo "  CC      main.o"
	@gcc -o linux main.c
"""
MAIN = r"""/* A fake. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (strcmp(argv[1], "--help") == 0) { puts("help\n%(seccomp)s=<on/auto/off>"); return 0; }
    puts("release %(version)s");
    printf("counted_ns %(counted)s\n");
    printf("slept_ns %(slept)s\n");
    printf("random %%d\n", %(random)s);
    puts("%(end)s");
    return argc < 2;
}
"""
PATCH = """\
--- a/main.c
+++ b/main.c
@@ -1,3 +1,4 @@
 /* A fake. */
+#define PATCHED 1
 #include <stdio.h>
 #include <string.h>
"""


def write_source(
    folder: Path,
    version: str = "7.3.4",
    unknown: str = "CONFIG_NEVER_ASKED",
    **behaviour: str,
) -> Path:
    """Write the source of a kernel. Return its folder. `unknown` is an option that the kernel lacks;
    `behaviour` fills in blanks of `MAIN`, the program's source."""
    blanks = {
        "seccomp": "seccomp",
        "counted": "600000050000",
        "slept": "600000050000",
        "random": "7",
        "end": "trial done",
    }
    (folder / "arch" / "um").mkdir(parents=True)
    (folder / "arch" / "um" / "Kconfig").write_text("config UML\n")
    (folder / "Makefile").write_text(MAKEFILE.format(version=version, unknown=unknown))
    (folder / "main.c").write_text(MAIN % {"version": version, **blanks, **behaviour})
    return folder


def write_recipe(folder: Path) -> Path:
    """Write a folder like `kernel/`, with a patch for the source of `write_source`. Return the folder."""
    (folder / "patches").mkdir(parents=True)
    (folder / "patches" / "0001-mark.patch").write_text(PATCH)
    (folder / "config").write_text("# for a test\nCONFIG_64BIT=y\nCONFIG_HZ=250\n")
    (folder / "unused").write_text("*/Documentation/*/*\n")
    (folder / "headers.h").write_text("/* none */\n")
    (folder / "trial.c").write_text("int main(void) { return 0; }\n")
    return folder
