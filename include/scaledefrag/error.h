/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * error: the one error idiom.
 *
 * A caller keeps one `struct error` on its stack and passes its address down. A function that can
 * fail returns 0 or -1; on -1 it has filled the error, on 0 it has not touched it, and its outputs
 * are set only on success. The text is one line without a newline, made where the facts are: what
 * is wrong, where (device, inode, block), and the next command to run. Only main.c prints it.
 *
 * Thread rule: a struct error belongs to one thread.
 */
#ifndef SCALEDEFRAG_ERROR_H
#define SCALEDEFRAG_ERROR_H

/* What the failure means to the user; the value is the exit code (see EXIT CODE in the man page).
 */
enum error_kind {
	ERROR_NONE = 0,
	ERROR_FSCK = 4,	     /* refused: e2fsck has to run first; nothing was written */
	ERROR_OPERATION = 8, /* in use, I/O error, out of memory, our own bug */
	ERROR_USAGE = 16,    /* usage, or a file system or image that is not supported */
	ERROR_STOPPED = 32,  /* stopped by a signal or a limit; consistent, a rerun goes on */
};

struct error {
	enum error_kind kind;
	int sys; /* errno of the failed call, or 0 */
	char text[768];
};

#define ERROR_INIT ((struct error){ .kind = ERROR_NONE })

/* Each fills `err` (which may hold nothing yet) and returns -1, for `return error_set(...)`. */
int error_set(struct error *err, enum error_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* As error_set, with ": " and the text of `sys` (an errno value) appended. */
int error_sys(struct error *err, enum error_kind kind, int sys, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Out of memory while doing `what` (a short noun phrase). Kind ERROR_OPERATION, sys ENOMEM. */
int error_nomem(struct error *err, const char *what);

#endif
