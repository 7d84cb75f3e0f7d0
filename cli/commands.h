/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the subcommands. Each takes the part of argv that begins with its own name, and
 * returns the exit status: 0 fine, 1 findings, 2 wrong usage, 77 cannot run here. A subcommand
 * prints results on stdout and errors on stderr. `run` returns the status of its program.
 */
#ifndef ST_COMMANDS_H_
#define ST_COMMANDS_H_

enum { ST_EXIT_FINE = 0, ST_EXIT_FINDINGS = 1, ST_EXIT_USAGE = 2, ST_EXIT_CANNOT = 77 };

int st_cmd_agree(int argc, char **argv);
int st_cmd_bench(int argc, char **argv);
int st_cmd_check(int argc, char **argv);
int st_cmd_decide(int argc, char **argv);
int st_cmd_diff(int argc, char **argv);
int st_cmd_doctor(int argc, char **argv);
int st_cmd_env(int argc, char **argv);
int st_cmd_run(int argc, char **argv);
int st_cmd_table(int argc, char **argv);
int st_cmd_top(int argc, char **argv);
int st_cmd_tune(int argc, char **argv);
int st_cmd_why(int argc, char **argv);
int st_cmd_worker(int argc, char **argv);

#endif
