/* SPDX-License-Identifier: Apache-2.0 */
/* gpus.c - a preloaded library. A program that reads the driver's list of GPUs reads the folder
 * that GPUS names instead. Each such read adds a line to $GPUS.log. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) DIR *opendir(const char *path)
{
    const char *gpus = getenv("GPUS");
    DIR *(*next)(const char *);
    char log[4096];
    FILE *f;

    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    if (gpus == NULL || strcmp(path, "/proc/driver/nvidia/gpus") != 0)
        return next(path);
    snprintf(log, sizeof log, "%s.log", gpus);
    f = fopen(log, "a");
    if (f != NULL) {
        fputs("asked\n", f);
        fclose(f);
    }
    return next(gpus);
}
