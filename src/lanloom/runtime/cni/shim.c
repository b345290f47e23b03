/* Hand a CNI call to the agent's Unix socket and print its answer: the program behind every CNI program of Lanloom.
 *
 * It decides nothing and parses nothing but what must work without an agent: VERSION, and errors by CNI's numbers.
 * A request is a list of strings, each ended by NUL: "lanloom-cni 1", the program's name, every CNI_* variable as
 * NAME=VALUE, an empty string; then standard input up to the end. An answer is "STATUS LENGTH\n" and so many bytes for
 * standard output; a shorter one comes from an agent that died.
 *
 * Only the headers of a C library are used: the program is static, and the same on every distribution.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#define VERSIONS "[\"0.3.0\", \"0.3.1\", \"0.4.0\", \"1.0.0\", \"1.1.0\"]"
#ifndef SECONDS
#define SECONDS 45 /* for a whole call: longer than the agent takes to give up by itself */
#endif
#define BAD_VARIABLES "4"
#define UNREADABLE "6"
#define AGAIN "11"
#define UNAVAILABLE "50"
enum { LARGEST = 1 << 20, VARIABLES = 1 << 16, MARK = 19 };

char place[128] = "lanloom-cni-shim 1 "; /* the installer writes the socket's path behind these 19 bytes */
static char buffer[VARIABLES + LARGEST + 2], line[1024], version[8] = "1.1.0";
static const char *command = "";
static struct timespec end;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

#if defined __x86_64__
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");

static long call(long number, long a, long b, long c, long d, long e) {
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return number;
}
#elif defined __aarch64__
__asm__(".globl _start\n_start: mov x0, sp\n bl begin\n");

static long call(long number, long a, long b, long c, long d, long e) {
    register long which __asm__("x8") = number, first __asm__("x0") = a, second __asm__("x1") = b;
    register long third __asm__("x2") = c, fourth __asm__("x3") = d, fifth __asm__("x4") = e;
    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return first;
}
#else
#error "Lanloom's CNI programs are written for amd64 and arm64"
#endif

static long length(const char *text) {
    long size = 0;
    while (text[size]) size++;
    return size;
}

static void copy(char *to, const char *from, long size) {
    while (size-- > 0) *to++ = *from++;
}

/* Whether `text` begins with `start`. */
static int begins(const char *text, const char *start) {
    while (*start && *text == *start) text++, start++;
    return !*start;
}

static int same(const char *one, const char *other) { return begins(one, other) && length(one) == length(other); }

static const char *find(const char *text, const char *part) {
    for (; *text; text++)
        if (begins(text, part)) return text;
    return 0;
}

/* Write all of it; 0 if that fails. */
static int write_all(int to, const char *from, long size) {
    for (long part; size > 0; from += part, size -= part)
        if ((part = call(SYS_write, to, (long)from, size, 0, 0)) <= 0) return 0;
    return 1;
}

static int print(int to, const char **texts) {
    long size = 0;
    for (; *texts; texts++) {
        copy(line + size, *texts, length(*texts));
        size += length(*texts);
    }
    return write_all(to, line, size);
}
#define PRINT(to, ...) print(to, (const char *[]){__VA_ARGS__, 0})

static int fail(const char *code, const char *message) {
    PRINT(1, "{\"cniVersion\": \"", version, "\", \"code\": ", code, ", \"msg\": \"", message, "\"}\n");
    return 1;
}

/* The agent removes by itself what a pod leaves, and no pod stays in Terminating because of an agent that is away. */
static int unreachable(const char *message) {
    if (!same(command, "DEL")) return fail(same(command, "STATUS") ? UNAVAILABLE : AGAIN, message);
    PRINT(2, message, "; nothing needs to be done\n");
    return 0;
}

/* Wait until a file can be read or written; 0 when it is too late. */
static int ready(int file, short events) {
    struct pollfd one = {file, events, 0};
    struct timespec now, left;
    long found;
    do {
        call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0);
        left.tv_sec = end.tv_sec - now.tv_sec - (end.tv_nsec < now.tv_nsec);
        left.tv_nsec = end.tv_nsec - now.tv_nsec + (end.tv_nsec < now.tv_nsec ? 1000000000 : 0);
        if (left.tv_sec < 0) return 0;
        found = call(SYS_ppoll, (long)&one, 1, (long)&left, 0, 0);
    } while (found == -EINTR);
    return found > 0;
}

/* Read up to `room` bytes, until the end; -1 for an error, or when it is too late. */
static long filled(int from, char *to, long room) {
    long size = 0, part = 1;
    while (size < room && part) {
        if (!ready(from, POLLIN)) return -1;
        part = call(SYS_read, from, (long)(to + size), room - size, 0, 0);
        if (part == -EAGAIN || part == -EINTR) continue;
        if (part < 0) return -1;
        size += part;
    }
    return size;
}

static int sent(int to, const char *from, long size) {
    while (size > 0) {
        if (!ready(to, POLLOUT)) return 0;
        long part = call(SYS_sendto, to, (long)from, size, MSG_NOSIGNAL | MSG_DONTWAIT, 0);
        if (part == -EAGAIN || part == -EINTR) continue;
        if (part < 0) return 0;
        from += part, size -= part;
    }
    return 1;
}

static const char *blank(const char *text) {
    while (*text == ' ' || (*text >= '\t' && *text <= '\r')) text++;
    return text;
}

static void read_version(const char *text) { /* of the configuration, whose NUL ends it; only errors depend on it */
    const char *at = find(text, "\"cniVersion\"");
    char found[8] = "";
    if (!at || *(at = blank(at + 12)) != ':') return;
    at = blank(at + 1);
    for (int size = 0; size < 7 && *at; size++) found[size] = *at++;
    if (*found == '"' && found[6] == '"' && find(VERSIONS, found)) copy(version, found + 1, 5);
}

/* The place of what is to be printed, if the answer is whole. */
static const char *output_of(const char *answer, long size, long *rest) {
    const char *at = answer + 2;
    long number = 0;
    if ((*answer != '0' && *answer != '1') || answer[1] != ' ' || *at == '\n') return 0;
    for (; *at >= '0' && *at <= '9' && at < answer + 9; at++) number = number * 10 + *at - '0';
    *rest = number;
    return *at == '\n' && at + 1 + number == answer + size ? at + 1 : 0;
}

/* Put the strings of a request into the buffer; its size, 0 for too many. */
static long packed(const char *name, char **variables) {
    long size = length("lanloom-cni 1") + 1, more = length(name) < 64 ? length(name) : 64;
    copy(buffer, "lanloom-cni 1", size);
    copy(buffer + size, name, more);
    size += more + 1;
    for (; *variables; variables++) {
        if (begins(*variables, "CNI_COMMAND=")) command = *variables + 12;
        if (!begins(*variables, "CNI_")) continue;
        if (size + (more = length(*variables) + 1) >= VARIABLES) return 0;
        copy(buffer + size, *variables, more);
        size += more;
    }
    return size + 1;
}

static int run(const char *name, char **variables) {
    for (const char *at = name; *at; at++)
        if (*at == '/') name = at + 1;
    long head = packed(name, variables), size, rest;
    if (!head) return fail(BAD_VARIABLES, "the CNI_* variables are larger than 64 KiB together");
    if ((size = filled(0, buffer + head, LARGEST + 1)) < 0) return fail(UNREADABLE, "standard input did not end in time");
    if (size > LARGEST) return fail(UNREADABLE, "the network configuration is larger than 1 MiB");
    read_version(buffer + head);
    if (!*command || !find("ADD CHECK DEL GC STATUS VERSION", command)) /* the agent looks more closely */
        return fail(BAD_VARIABLES, "CNI_COMMAND must be one of ADD, CHECK, DEL, GC, STATUS, VERSION");
    if (same(command, "VERSION"))
        return !PRINT(1, "{\"cniVersion\": \"", version, "\", \"supportedVersions\": " VERSIONS "}\n");

    struct timeval limit = {SECONDS, 0};
    int agent = call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0);
    copy(address.sun_path, place + MARK, sizeof address.sun_path - 1);
    if (agent < 0 || call(SYS_setsockopt, agent, SOL_SOCKET, SO_SNDTIMEO, (long)&limit, sizeof limit) ||
        call(SYS_connect, agent, (long)&address, sizeof address, 0, 0) || !sent(agent, buffer, head + size) ||
        call(SYS_shutdown, agent, SHUT_WR, 0, 0, 0) || (size = filled(agent, buffer, LARGEST + 32)) < 0)
        return unreachable("Lanloom's agent on this node does not answer; try again later, or see the agent's log");
    const char *output = output_of(buffer, size, &rest);
    if (!output)
        return unreachable("Lanloom's agent on this node gave no whole answer; try again later, or see the agent's log");
    return !write_all(1, output, rest) || *buffer != '0';
}

/* Called with the stack as the kernel leaves it: the count of words, the words, NULL, the variables, NULL. */
__attribute__((used, noreturn)) void begin(long *stack) {
    char **words = (char **)(stack + 1);
    call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&end, 0, 0, 0);
    end.tv_sec += SECONDS;
    call(SYS_exit_group, run(*stack ? *words : "", words + *stack + 1), 0, 0, 0, 0);
    __builtin_unreachable();
}
