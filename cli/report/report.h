/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - writes the page that draws the results of symtuner tune or symtuner table: report.html
 * with the data inside. The page is one file and needs only a browser.
 *
 * Errors: one line on stderr, and false. Threads: one.
 */
#ifndef ST_REPORT_H_
#define ST_REPORT_H_

#include <stdbool.h>

#include "cli/json.h"

/* Write the page to ${path}. ${write} writes its data, one JSON object, whose member "page" names
 * the function of the page's script that draws them. Returns false, with the error printed, if that
 * fails. */
bool st_report_write(const char *command, const char *path, bool force,
                     void (*write)(const void *self, struct st_json *json), const void *self);

#endif
