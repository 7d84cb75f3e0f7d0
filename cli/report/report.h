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

/* Write the page to ${path}. ${write} writes the data of the page, which are one JSON object. Its
 * member "page" names the function in the page's script that draws the data. Returns false, with
 * the error printed, if the page cannot be written. */
bool st_report_write(const char *command, const char *path, bool force,
                     void (*write)(const void *self, struct st_json *json), const void *self);

#endif
