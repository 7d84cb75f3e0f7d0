/* SPDX-License-Identifier: Apache-2.0 */
/* windows.c - finds out whether NCCL registers a window, or returns success and a NULL window. */
#include <stdlib.h>
#include <string.h>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/doctor/gpu.h"

void st_doctor_windows(struct st_doctor *doctor, struct st_gpu_report *report)
{
    char ranks[12];
    const char *library = doctor->used >= 0 ? doctor->copy[doctor->used].path : "-";
    const char *arguments[] = {"windows", ranks, library, NULL};
    /* keep NCCL from creating multicast objects when the communicator starts */
    const char *set[] = {"NCCL_NVLS_ENABLE=0", NULL};
    struct st_child child = {.arguments = arguments, .set = set, .limit_s = 22};
    enum st_child_end end;

    snprintf(ranks, sizeof ranks, "%d", report->gpus);
    end = st_child_run(&child);
    if (end == ST_CHILD_DONE && child.output && strncmp(child.output, "windows real", 12) == 0) {
        report->windows = ST_WINDOWS_REAL;
    } else if (end == ST_CHILD_DONE && child.output &&
               strncmp(child.output, "windows null", 12) == 0) {
        report->windows = ST_WINDOWS_NULL;
    } else if (child.status == ST_EXIT_CANNOT) {
        snprintf(report->windows_text, sizeof report->windows_text, "windows: %.250s", child.error);
        report->windows_text[strcspn(report->windows_text, "\n")] = '\0';
        st_doctor_unchecked(doctor, report->windows_text);
    } else {
        report->windows = ST_WINDOWS_FAILED;
        child.error[strcspn(child.error, "\n")] = '\0';
        snprintf(report->windows_text, sizeof report->windows_text, "registering a window: %.250s",
                 end == ST_CHILD_TIMEOUT ? "no answer within 22 s" : child.error);
    }
    free(child.output);
}
