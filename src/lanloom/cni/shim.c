/* Hand a CNI call to the agent's Unix socket and print its answer: the program behind `macvtap` and `k8slanveth`.
 *
 * It decides nothing and parses nothing but what must work without an agent: VERSION, and errors by CNI's numbers.
 * A request is a list of strings, each ended by NUL: "lanloom-cni 1", the program's name, every CNI_* variable as
 * NAME=VALUE, an empty string; then standard input up to the end. An answer is "STATUS LENGTH\n" and so many bytes for
 * standard output; a shorter one comes from an agent that died. forward.py speaks the same where this can't run.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define VERSIONS "[\"0.3.0\", \"0.3.1\", \"0.4.0\", \"1.0.0\", \"1.1.0\"]"
#ifndef SECONDS
#define SECONDS 45 /* for a whole call: longer than the agent takes to give up by itself */
#endif
enum { LARGEST = 1 << 20, VARIABLES = 1 << 16, BAD_VARIABLES = 4, UNREADABLE = 6, AGAIN = 11, UNAVAILABLE = 50 };

char place[128] = "lanloom-cni-shim 1 "; /* the installer writes the socket's path behind these 19 bytes */
static char buffer[VARIABLES + LARGEST + 2];
static const char *command = "";
static char version[8] = "1.1.0";
static volatile sig_atomic_t late;
extern char **environ;

static void expire(int signal) { late = signal; }

static int fail(int code, const char *message) {
    if (code >= AGAIN && strcmp(command, "DEL") == 0) {
        dprintf(2, "%s; nothing needs to be done\n", message);
        return 0; /* the agent removes by itself what the pod leaves, and no pod stays in Terminating */
    }
    dprintf(1, "{\"cniVersion\": \"%s\", \"code\": %d, \"msg\": \"%s\"}\n", version, code, message);
    return 1;
}

static int unreachable(const char *message) { return fail(strcmp(command, "STATUS") ? AGAIN : UNAVAILABLE, message); }

/* Read up to `room` bytes, until the end or an error; -1 when it is too late. */
static long filled(int from, char *to, long room) {
    long size = 0, part = 1;
    while (size < room && part > 0 && !late)
        if ((part = read(from, to + size, room - size)) > 0) size += part;
    return part < 0 || late ? -1 : size;
}

static int sent(int to, const char *from, long size) {
    long part = 1;
    for (; size > 0 && part > 0 && !late; from += part, size -= part) part = send(to, from, size, MSG_NOSIGNAL);
    return size == 0;
}

static void read_version(const char *text) { /* of the configuration, whose NUL ends it; only errors depend on it */
    const char *at = strstr(text, "\"cniVersion\"");
    char found[8] = "\"";
    if (at && sscanf(at + 12, " : \"%5[0-9.]", found + 1) == 1 && strlen(found) == 6 && strstr(VERSIONS, found))
        strcpy(version, found + 1);
}

int main(int count, char **words) {
    const char *name = count ? words[0] : "", *slash = strrchr(name, '/');
    struct sigaction action = {.sa_handler = expire}; /* no SA_RESTART, and again each second: no wait outlasts it */
    struct itimerval limit = {{1, 0}, {SECONDS, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &limit, NULL);
    if (getenv("CNI_COMMAND")) command = getenv("CNI_COMMAND");
    long head = sprintf(buffer, "lanloom-cni 1%c%.64s", 0, slash ? slash + 1 : name) + 1, size;
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, "CNI_", 4)) continue;
        size = strlen(*variable) + 1;
        if (head + size >= VARIABLES) return fail(BAD_VARIABLES, "the CNI_* variables are larger than 64 KiB together");
        memcpy(buffer + head, *variable, size), head += size;
    }
    buffer[head++] = 0;
    if ((size = filled(0, buffer + head, LARGEST + 1)) < 0) return fail(UNREADABLE, "standard input did not end in time");
    if (size > LARGEST) return fail(UNREADABLE, "the network configuration is larger than 1 MiB");
    read_version(buffer + head);
    if (!*command || !strstr("ADD CHECK DEL GC STATUS VERSION", command)) /* the agent looks more closely */
        return fail(BAD_VARIABLES, "CNI_COMMAND must be one of ADD, CHECK, DEL, GC, STATUS, VERSION");
    if (strcmp(command, "VERSION") == 0)
        return dprintf(1, "{\"cniVersion\": \"%s\", \"supportedVersions\": " VERSIONS "}\n", version) < 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, place + 19, sizeof address.sun_path - 1);
    int agent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), skip = 0;
    if (agent < 0 || connect(agent, (struct sockaddr *)&address, sizeof address) || !sent(agent, buffer, head + size) ||
        shutdown(agent, SHUT_WR) || (size = filled(agent, buffer, LARGEST + 32)) < 0)
        return unreachable("Lanloom's agent on this node does not answer; try again later, or see the agent's log");
    buffer[size] = 0;
    char status[2];
    long length = 0;
    if (sscanf(buffer, "%1[01] %7ld%n", status, &length, &skip) < 2 || buffer[skip] != '\n' || size != skip + 1 + length)
        return unreachable("Lanloom's agent on this node gave no whole answer; try again later, or see the agent's log");
    return (length && write(1, buffer + skip + 1, length) != length) || *status != '0';
}
