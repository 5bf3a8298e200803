# C types of loops.py. The loops run without the interpreter's lock on C buffers: `data` and `out` are pointers into a
# bytearray that never grows. The C functions are those of plain_io.py, by the same names.
cimport cython

from amqp_broker.bench.histogram cimport Histogram

cdef extern from *:
    """
    #include <errno.h>
    #include <poll.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <time.h>

    static long long monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000LL + now.tv_nsec;
    }

    static void wait_readable(int fd, long long ns) {
        struct pollfd entry = {fd, POLLIN, 0};
    #ifdef __linux__
        struct timespec left = {ns / 1000000000LL, ns % 1000000000LL};
        ppoll(&entry, 1, &left, NULL);
    #else
        poll(&entry, 1, (int)((ns + 999999) / 1000000));
    #endif
    }

    static ssize_t outcome_of(ssize_t count) {
        if (count >= 0) return count;
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
    }

    static ssize_t receive_octets(int fd, unsigned char *data, ssize_t start, ssize_t room, int at_once) {
        ssize_t count = recv(fd, data + start, room, at_once ? MSG_DONTWAIT : 0);
        return count == 0 ? -1 : outcome_of(count);
    }

    static ssize_t send_octets(int fd, const unsigned char *data, ssize_t start, ssize_t end) {
        return outcome_of(send(fd, data + start, end - start, 0));
    }

    static void move_octets(unsigned char *data, ssize_t start, ssize_t length) {
        memmove(data, data + start, length);
    }

    static unsigned int u32(const unsigned char *data, ssize_t position) {
        data += position;
        return (unsigned int)data[0] << 24 | data[1] << 16 | data[2] << 8 | data[3];
    }

    static unsigned long long u64(const unsigned char *data, ssize_t position) {
        return (unsigned long long)u32(data, position) << 32 | u32(data, position + 4);
    }

    static void put_u64(unsigned char *data, ssize_t position, unsigned long long value) {
        for (int i = 7; i >= 0; i--) { data[position + i] = value & 255; value >>= 8; }
    }

    static void put_ack(unsigned char *data, ssize_t position, int channel, unsigned long long tag, int is_multiple) {
        static const unsigned char ack[] = {1, 0, 0, 0, 0, 0, 13, 0, 60, 0, 80};
        memcpy(data + position, ack, sizeof ack);
        data[position + 1] = channel >> 8;
        data[position + 2] = channel & 255;
        put_u64(data, position + 11, tag);
        data[position + 19] = is_multiple;
        data[position + 20] = 0xCE;
    }
    """
    long long monotonic_ns() noexcept nogil
    void wait_readable(int fd, long long ns) noexcept nogil
    Py_ssize_t receive_octets(int fd, unsigned char* data, Py_ssize_t start, Py_ssize_t room, bint at_once) noexcept nogil
    Py_ssize_t send_octets(int fd, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    void move_octets(unsigned char* data, Py_ssize_t start, Py_ssize_t length) noexcept nogil
    unsigned int u32(const unsigned char* data, Py_ssize_t position) noexcept nogil
    unsigned long long u64(const unsigned char* data, Py_ssize_t position) noexcept nogil
    void put_u64(unsigned char* data, Py_ssize_t position, unsigned long long value) noexcept nogil
    void put_ack(unsigned char* data, Py_ssize_t position, int channel, unsigned long long tag, bint is_multiple) noexcept nogil

cdef enum:
    END_OF_STREAM = -1
    RUNNING = 0
    FINISHED = 1
    CLOSED = 2
    LOST = 3
    CONFUSED = 4
    CANCELLED = 5
    CLOSE_OK = 6
    CAPACITY = 262144
    ACK_SIZE = 21
    ACK_ROOM = 32768

cpdef long long clock() noexcept nogil

@cython.final
cdef class Control:
    cdef public bint stop_publishing
    cdef public bint stop_all
    cdef public bint is_measuring

cdef class Wire:
    cdef readonly object sock
    cdef int fd
    cdef readonly Control control
    cdef readonly int channel
    cdef bytearray buffer
    cdef unsigned char* data
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef Py_ssize_t skip
    cdef long long body_left
    cdef bint is_first_body
    cdef long long arrived
    cdef Py_ssize_t close_start
    cdef Py_ssize_t close_end
    cdef readonly int state
    cdef readonly int error
    cdef readonly bint is_cut
    cdef readonly bint is_blocked
    cdef readonly Histogram latency

    cdef void work(self) noexcept nogil

    @cython.locals(rest=Py_ssize_t, got=Py_ssize_t)
    cdef bint read(self, bint at_once) noexcept nogil

    @cython.locals(sent=Py_ssize_t)
    cdef bint send_all(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil

    @cython.locals(left="long long")
    cdef void wait(self, long long until) noexcept nogil

    @cython.locals(position=Py_ssize_t, ready=Py_ssize_t, kind=int, length="long long")
    cdef void scan(self) noexcept nogil

    cdef bint skip_body(self, Py_ssize_t ready) noexcept nogil

    @cython.locals(method="unsigned int")
    cdef void on_method(self, Py_ssize_t position, Py_ssize_t length) noexcept nogil

    cdef void on_content(self) noexcept nogil

cdef class Consumer(Wire):
    cdef readonly long long ack_every
    cdef readonly long long received
    cdef readonly long long redelivered
    cdef readonly long long unacked
    cdef unsigned long long delivery_tag
    cdef unsigned long long complete_tag
    cdef readonly long long last_arrival
    cdef bytearray acks
    cdef unsigned char* out
    cdef Py_ssize_t out_length

    @cython.locals(is_ack_due=bint)
    cdef void work(self) noexcept nogil

    cdef void add_ack(self) noexcept nogil
    cdef void send_acks(self) noexcept nogil

cdef class Producer(Wire):
    cdef bytearray ring
    cdef unsigned char* out
    cdef readonly Py_ssize_t pitch
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t stamp_at
    cdef readonly Py_ssize_t batch
    cdef readonly long long window
    cdef readonly long long quota
    cdef long long interval_ns
    cdef long long delay_ns
    cdef readonly long long published
    cdef readonly long long confirmed
    cdef readonly long long nacked
    cdef readonly long long returned
    cdef readonly bint is_finished
    cdef readonly long long finished_at
    cdef long long floor
    cdef Py_ssize_t sent_mask
    cdef bytearray sent_room
    cdef long long* sent_at

    @cython.locals(room="unsigned char*")
    cdef void make_sent_room(self) except *

    @cython.locals(started="long long", cursor=Py_ssize_t, turns="long long", count=Py_ssize_t, now="long long", due="long long")
    cdef void work(self) noexcept nogil

    cdef bint is_window_full(self) noexcept nogil

    @cython.locals(position=Py_ssize_t, number="long long")
    cdef void publish(self, Py_ssize_t first, Py_ssize_t count, long long now) noexcept nogil

    @cython.locals(number="unsigned long long", settled="long long", sent="long long")
    cdef long long settle(self, unsigned long long tag, bint is_multiple) noexcept nogil
