// Which lanes touch the same word between two barriers: what -fsanitize=thread calls, in place of its own runtime.
//
// Warp's lanes are fibres of one thread, one after the other, where the usual runtime sees no threads. Here a word knows
// who read and wrote it last: in which launch, block, and stretch between barriers, and which lane. Two accesses, one of
// them a write, are a race if they are of two blocks of a launch, or of two lanes in the same stretch.

#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>

typedef void (*lane_function)(void*, size_t, int, void*);

struct runtime {  // wp_cpu_block_runtime_api
    int (*lane)();
    int (*active)();
    int (*first)();
    void (*sync)();
    int (*run)(int, int, lane_function, void*, size_t, void*);
};

struct access {
    uint32_t launch, block, stretch;
    int lane;
    void* code;
    bool other_lanes, other_blocks;  // touched it, too
};

struct word {
    access read, write;
};

static const runtime* warp;
static uint32_t launches, block, stretch[1024];
static bool inside;
static std::unordered_map<uintptr_t, word> words, bytes;  // by what an access is a multiple of
static std::map<std::tuple<void*, void*, uintptr_t>, long> races;
static long uneven;  // blocks whose lanes met at different numbers of barriers

static bool together(const access& before, int lane)
{
    if (before.launch != launches)
        return false;
    if (before.block != block || before.other_blocks)
        return true;
    return before.stretch == stretch[lane] && (before.lane != lane || before.other_lanes);
}

static void note(access& last, int lane, void* code)
{
    const bool here = last.launch == launches, now = here && last.block == block && last.stretch == stretch[lane];
    const bool other_blocks = here && (last.other_blocks || last.block != block);
    const bool other_lanes = now && (last.other_lanes || last.lane != lane);
    last = {launches, block, stretch[lane], lane, code, other_lanes, other_blocks};
}

static void touch(void* start, size_t size, bool writes, void* code)
{
    const uintptr_t first = (uintptr_t)start, stack = (uintptr_t)__builtin_frame_address(0);
    const bool own = first + 4096 > stack && first < stack + (1 << 20);  // a fibre's stack has a megabyte
    if (!inside || own || !size)
        return;
    const int lane = warp->lane(), shift = size < 4 ? 0 : 2;  // bytes next to each other may be two blocks' own
    for (uintptr_t at = first >> shift; at <= (first + size - 1) >> shift; ++at) {
        word& of = (shift ? words : bytes)[at];
        if (together(of.write, lane))
            ++races[{of.write.code, code, at << shift}];
        if (writes && together(of.read, lane))
            ++races[{of.read.code, code, at << shift}];
        note(writes ? of.write : of.read, lane, code);
    }
}

extern "C" {
void watch(const runtime* of_warp) { warp = of_warp; }

long uneven_blocks() { return uneven; }

int next_race(void** before, void** after, uintptr_t* at)
{
    if (races.empty())
        return 0;
    std::tie(*before, *after, *at) = races.begin()->first;
    races.erase(races.begin());
    return 1;
}

int wp_cpu_get_thread_idx() { return warp->lane(); }
int wp_cpu_get_active_count() { return warp->active(); }
int wp_cpu_get_first_active_lane() { return warp->first(); }

void wp_cpu_tile_sync()
{
    ++stretch[warp->lane()];
    warp->sync();
}

int wp_cpu_run_block(int lanes, int active, lane_function work, void* dim, size_t number, void* args)
{
    if (number == 0) {
        ++launches;
        if (words.size() > 1000000)
            words.clear();
    }
    block = number;
    memset(stretch, 0, sizeof(stretch));
    inside = true;
    const int done = warp->run(lanes, active, work, dim, number, args);
    inside = false;
    bool even = true;
    for (int lane = 1; lane < active; ++lane)
        even &= stretch[lane] == stretch[0];
    uneven += !even;
    return done;
}

#define CODE __builtin_return_address(0)
#define ACCESSES(size) \
    void __tsan_read##size(void* x) { touch(x, size, false, CODE); } \
    void __tsan_write##size(void* x) { touch(x, size, true, CODE); } \
    void __tsan_unaligned_read##size(void* x) { touch(x, size, false, CODE); } \
    void __tsan_unaligned_write##size(void* x) { touch(x, size, true, CODE); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void* __tsan_memcpy(void* to, const void* from, size_t size)
{
    touch((void*)from, size, false, CODE);
    touch(to, size, true, CODE);
    return memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, size_t size)
{
    touch((void*)from, size, false, CODE);
    touch(to, size, true, CODE);
    return memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, size_t size)
{
    touch(to, size, true, CODE);
    return memset(to, value, size);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

int _wp_isfinite(double x) { return __builtin_isfinite(x); }
int _wp_isnan(double x) { return __builtin_isnan(x); }
int _wp_isinf(double x) { return __builtin_isinf(x); }
void _wp_assert(const char*, const char*, unsigned) { __builtin_abort(); }
}
