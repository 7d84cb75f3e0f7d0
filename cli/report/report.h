/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - writes report.html, which draws what symtuner tune and symtuner table found, with
 * their data inside: one file that needs nothing but a browser.
 *
 * Errors: one line on stderr, and false. Threads: one.
 */
#ifndef ST_REPORT_H_
#define ST_REPORT_H_

#include <stdbool.h>

#include "cli/json.h"

/* ${write} writes one JSON object; its member "page" is the script's function that draws it. */
bool st_report_write(const char *command, const char *path,
                     void (*write)(const void *self, struct st_json *json), const void *self);

#endif
