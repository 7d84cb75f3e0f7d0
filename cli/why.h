/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what the files of `symtuner why` share.
 */
#ifndef ST_WHY_H_
#define ST_WHY_H_

#include <stdbool.h>
#include <stdio.h>

/* Predict every row of a recorded corpus and print the comparison. Exit status: 0 no mismatch,
 * 1 mismatches, 2 the file cannot be used. ${show} is how many mismatches are listed. */
int st_why_corpus(const char *path, int show, bool json, FILE *out);

#endif
