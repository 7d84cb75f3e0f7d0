/* SPDX-License-Identifier: Apache-2.0 */
/* empty.c - a library that is not a plugin. */
extern int nothing_to_see;
__attribute__((visibility("default"))) int nothing_to_see;
