// A stand-in CUDA driver: the functions that spark-mem and spark-hal call, in host memory.
//
//   persona SPARK  a GB10: integrated, cc 12.1, plain memory and managed memory shared
//   persona CARD   a discrete card, cc 9.0: nothing shared but pinned memory
//   memory         "device" memory lies in pages that only running work may touch: a host
//                  that dereferences it faults, on either persona
//   streams        work waits in a queue until something waits for it, so that a missing
//                  wait shows as old data
//   kernels        the host-compiled .cu files, run by fibers.cpp
//
// Broken rules (memory freed twice, a copy outside an allocation, a write past the end) are
// written down as violations. Types and numbers are those of cuda.h, CUDA 13.0. It computes
// correctly and slowly; it is never installed anywhere and only tests open it.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fibers.h"
#include "record.h"

using namespace stand_in;
using Clock = std::chrono::steady_clock;
using Result = int;
using Address = unsigned long long;

namespace {

enum : Result {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_TIMEOUT = 702,
  STREAM_CAPTURE_UNSUPPORTED = 900,
};

enum class Kind { DEVICE, MANAGED, PINNED };

struct Block { std::size_t n_bytes; Kind kind; };

constexpr std::size_t PAGE = 4096;
constexpr std::size_t MARGIN = 256;          // behind every device block, to see writes past it
constexpr unsigned char MARGIN_BYTE = 0xA5;
constexpr unsigned char FRESH_BYTE = 0xCD;
constexpr std::size_t ARENA_BYTES = std::size_t{8} << 30;
constexpr Address TOTAL_BYTES[2] = {130663907328ull, 4ull << 30};  // GB10's 121.7 GiB; 4 GiB

// A queue of work. An operation runs when something waits for it.
struct Stream;
using Op = std::function<void()>;
struct Stream {
  std::deque<Op> queue;
  unsigned long n_queued = 0, n_done = 0;
  bool is_captured = false, is_alive = true;
  std::vector<Op> captured;
};
struct Event {
  std::shared_ptr<Stream> stream;
  unsigned long ticket = 0;
  std::shared_ptr<Clock::time_point> time;
};
struct Module { std::set<std::string> entries; };
struct Graph { std::vector<Op> ops; };

std::map<Address, Block> blocks;
std::map<void*, std::shared_ptr<Stream>> streams;
std::map<void*, std::unique_ptr<Event>> events;
std::map<void*, std::unique_ptr<Module>> modules;
std::map<void*, std::shared_ptr<Graph>> graphs;
int context_count = 0;
Result sticky = 0;
std::uintptr_t next_handle = 0x1000;
const std::uintptr_t CONTEXT = 0xC0DE;
thread_local void* current_context = nullptr;

// --- device memory -------------------------------------------------------------------------

unsigned char* arena = nullptr;
std::map<std::size_t, std::size_t> free_ranges;  // offset -> bytes
std::size_t arena_used = 0;
int n_open = 0;

// While one of these lives, device memory can be touched.
struct DeviceOpen {
  DeviceOpen() {
    if (n_open++ == 0 && arena_used > 0) mprotect(arena, arena_used, PROT_READ | PROT_WRITE);
  }
  ~DeviceOpen() {
    if (--n_open == 0 && arena_used > 0) mprotect(arena, arena_used, PROT_NONE);
  }
};

std::size_t room_for(std::size_t n_bytes) { return (n_bytes + MARGIN + PAGE - 1) / PAGE * PAGE; }

Address take_device(std::size_t n_bytes) {
  std::size_t room = room_for(n_bytes);
  if (arena == nullptr) {
    void* made = mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return 0;
    arena = static_cast<unsigned char*>(made);
  }
  std::size_t offset = arena_used;
  auto fits = std::find_if(free_ranges.begin(), free_ranges.end(), [&](auto& range) { return range.second >= room; });
  if (fits != free_ranges.end()) {
    offset = fits->first;
    std::size_t left = fits->second - room;
    free_ranges.erase(fits);
    if (left > 0) free_ranges[offset + room] = left;
  } else {
    if (room > ARENA_BYTES - arena_used) return 0;
    arena_used += room;
    if (n_open > 0) mprotect(arena + offset, room, PROT_READ | PROT_WRITE);
  }
  DeviceOpen open;
  std::memset(arena + offset, FRESH_BYTE, n_bytes);
  std::memset(arena + offset + n_bytes, MARGIN_BYTE, room - n_bytes);
  return reinterpret_cast<Address>(arena + offset);
}

void give_device(Address address, std::size_t n_bytes) {
  DeviceOpen open;
  auto* bytes = reinterpret_cast<unsigned char*>(address);
  std::size_t room = room_for(n_bytes);
  if (!std::all_of(bytes + n_bytes, bytes + room, [](unsigned char byte) { return byte == MARGIN_BYTE; }))
    violation("something wrote past the end of a device allocation of " + std::to_string(n_bytes) + " bytes");
  free_ranges[static_cast<std::size_t>(bytes - arena)] = room;
}

bool is_in_arena(Address address) {
  auto start = reinterpret_cast<Address>(arena);
  return arena != nullptr && address >= start && address < start + ARENA_BYTES;
}

// The block that holds a whole range, or null.
const Block* block_of(Address address, std::size_t n_bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  --after;
  return address + n_bytes <= after->first + after->second.n_bytes ? &after->second : nullptr;
}

// Whether the device may touch these bytes: an allocation, or plain memory it can reach.
bool is_reachable(Address address, std::size_t n_bytes) {
  if (block_of(address, n_bytes) != nullptr) return true;
  return !is_in_arena(address) && persona() == SPARK;
}

// --- work ----------------------------------------------------------------------------------

void run_until(Stream& stream, unsigned long ticket) {
  while (stream.n_done < ticket && !stream.queue.empty()) {
    Op op = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.n_done;
    if (sticky == 0) op();
  }
}

void run_all(Stream& stream) { run_until(stream, stream.n_queued); }
void run_everything() {
  for (auto& [handle, stream] : streams) run_all(*stream);
}

void submit(Stream& stream, Op op) {
  if (stream.is_captured) {
    stream.captured.push_back(std::move(op));
  } else {
    stream.queue.push_back(std::move(op));
    ++stream.n_queued;
  }
}

void fail(Result code, const std::string& why) {
  sticky = code;
  violation(why);
}

void copy_bytes(Address to, Address from, std::size_t n_bytes) {
  for (Address address : {to, from}) {
    if (!is_reachable(address, n_bytes)) return fail(ILLEGAL_ADDRESS, "a copy ran on memory that is gone");
  }
  DeviceOpen open;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n_bytes);
}

void* as_handle(std::uintptr_t value) { return reinterpret_cast<void*>(value); }
void* new_handle() { return as_handle(next_handle += 16); }

template <class Map>
typename Map::mapped_type* find(Map& map, void* handle) {
  auto found = map.find(handle);
  return found == map.end() ? nullptr : &found->second;
}

std::string hexadecimal(Address value) {
  char text[32];
  std::snprintf(text, sizeof text, "%llx", value);
  return text;
}

}  // namespace

void stand_in::forget_driver_state() {
  streams.clear();
  events.clear();
  modules.clear();
  graphs.clear();
  for (auto& [address, block] : blocks) {
    if (block.kind == Kind::DEVICE) free_ranges[address - reinterpret_cast<Address>(arena)] = room_for(block.n_bytes);
    else std::free(reinterpret_cast<void*>(address));
  }
  blocks.clear();
  context_count = 0;
  sticky = 0;
  current_context = nullptr;  // of this thread, which is the one that starts over
}

#define API extern "C" __attribute__((visibility("default"))) Result
// Every function: wait if held, lock, write down, fail if told to.
#define ENTER(name, ...)                                        \
  pass(#name);                                                  \
  std::lock_guard<std::mutex> guard(lock);                      \
  if (Result code = enter(#name, ##__VA_ARGS__)) return code
// As ENTER for what needs a context that works.
#define ENTER_CONTEXT(name, ...)                                \
  ENTER(name, ##__VA_ARGS__);                                   \
  if (current_context != as_handle(CONTEXT)) return INVALID_CONTEXT; \
  if (sticky != 0) return sticky
// As ENTER_CONTEXT for what gives back: it does so even when it reports an error.
#define ENTER_GIVING_BACK(name, ...)                            \
  pass(#name);                                                  \
  std::lock_guard<std::mutex> guard(lock);                      \
  Result told = enter(#name, ##__VA_ARGS__);                    \
  if (current_context != as_handle(CONTEXT)) return INVALID_CONTEXT; \
  if (told == 0) told = sticky

// --- start and devices ---------------------------------------------------------------------

API cuInit(unsigned) { ENTER(cuInit); return SUCCESS; }
API cuDriverGetVersion(int* version) { ENTER(cuDriverGetVersion); *version = 13000; return SUCCESS; }
API cuDeviceGetCount(int* count) { ENTER(cuDeviceGetCount); *count = 1; return SUCCESS; }
API cuDeviceGet(int* device, int ordinal) {
  ENTER(cuDeviceGet);
  if (ordinal != 0) return INVALID_DEVICE;
  *device = 0;
  return SUCCESS;
}
API cuDeviceGetName(char* name, int room, int) {
  ENTER(cuDeviceGetName);
  std::snprintf(name, static_cast<std::size_t>(room), "%s", persona() == SPARK ? "NVIDIA GB10" : "NVIDIA H100 stand-in");
  return SUCCESS;
}
API cuDeviceGetUuid_v2(unsigned char* uuid, int) {
  ENTER(cuDeviceGetUuid_v2);
  std::memset(uuid, 0x5A, 16);
  return SUCCESS;
}
API cuDeviceGetPCIBusId(char* text, int room, int) {
  ENTER(cuDeviceGetPCIBusId);
  std::snprintf(text, static_cast<std::size_t>(room), "000F:01:00.0");
  return SUCCESS;
}
API cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  ENTER(cuDeviceTotalMem_v2);
  *bytes = TOTAL_BYTES[persona()];
  return SUCCESS;
}
API cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER(cuDeviceGetAttribute, std::to_string(attribute));
  bool is_spark = persona() == SPARK;
  switch (attribute) {
    case 8: *value = 49152; break;                       // shared memory per block
    case 16: *value = is_spark ? 48 : 132; break;         // multiprocessors
    case 18: *value = is_spark; break;                    // integrated
    case 19: case 41: case 99: case 115: *value = 1; break;
    case 38: *value = is_spark ? 25165824 : 52428800; break;
    case 39: *value = is_spark ? 1536 : 2048; break;
    case 75: *value = is_spark ? 12 : 9; break;           // compute capability
    case 76: *value = is_spark ? 1 : 0; break;
    case 83: case 89: *value = 1; break;                  // managed memory, used by both at once
    case 88: case 100: *value = is_spark; break;          // plain memory, the CPU's page tables
    case 97: *value = is_spark ? 101376 : 232448; break;
    default: *value = 0;
  }
  return SUCCESS;
}

// --- context -------------------------------------------------------------------------------

API cuDevicePrimaryCtxRetain(void** context, int) {
  ENTER(cuDevicePrimaryCtxRetain);
  ++context_count;
  *context = as_handle(CONTEXT);
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int) {
  std::lock_guard<std::mutex> guard(lock);
  Result told = enter("cuDevicePrimaryCtxRelease_v2");
  if (context_count == 0) return INVALID_CONTEXT;
  if (--context_count == 0) {
    run_everything();
    // A context that failed takes everything with it; otherwise what is left is a leak.
    if (sticky != 0) forget_driver_state();
  }
  return told;
}
API cuCtxGetCurrent(void** context) { ENTER(cuCtxGetCurrent); *context = current_context; return SUCCESS; }
API cuCtxSetCurrent(void* context) { ENTER(cuCtxSetCurrent); current_context = context; return SUCCESS; }
API cuCtxSynchronize() { ENTER_CONTEXT(cuCtxSynchronize); run_everything(); return sticky; }

// --- memory --------------------------------------------------------------------------------

static Result allocate(Kind kind, std::size_t n_bytes, Address* result) {
  if (n_bytes == 0) return INVALID_VALUE;
  Address used = 0;
  for (auto& [address, block] : blocks) used += block.n_bytes;
  if (allocation_fails() || n_bytes > TOTAL_BYTES[persona()] - used) return OUT_OF_MEMORY;
  Address address;
  if (kind == Kind::DEVICE) {
    address = take_device(n_bytes);
  } else {
    address = reinterpret_cast<Address>(std::aligned_alloc(PAGE, (n_bytes + PAGE - 1) / PAGE * PAGE));
    if (address != 0) std::memset(reinterpret_cast<void*>(address), FRESH_BYTE, n_bytes);
  }
  if (address == 0) return OUT_OF_MEMORY;
  blocks[address] = {n_bytes, kind};
  *result = address;
  return SUCCESS;
}

static Result give_back(Address address, bool is_pinned) {
  auto found = blocks.find(address);
  if (found == blocks.end() || (found->second.kind == Kind::PINNED) != is_pinned) {
    violation("memory given back that was not allocated: " + hexadecimal(address));
    return INVALID_VALUE;
  }
  run_everything();  // the real driver waits too
  Block block = found->second;
  blocks.erase(found);
  if (block.kind == Kind::DEVICE) give_device(address, block.n_bytes);
  else std::free(reinterpret_cast<void*>(address));
  return SUCCESS;
}

API cuMemAlloc_v2(Address* address, std::size_t n_bytes) {
  ENTER_CONTEXT(cuMemAlloc_v2, std::to_string(n_bytes));
  return allocate(Kind::DEVICE, n_bytes, address);
}
API cuMemAllocManaged(Address* address, std::size_t n_bytes, unsigned) {
  ENTER_CONTEXT(cuMemAllocManaged, std::to_string(n_bytes));
  return allocate(Kind::MANAGED, n_bytes, address);
}
API cuMemHostAlloc(void** pointer, std::size_t n_bytes, unsigned) {
  ENTER_CONTEXT(cuMemHostAlloc, std::to_string(n_bytes));
  Address address = 0;
  Result result = allocate(Kind::PINNED, n_bytes, &address);
  if (result == SUCCESS) *pointer = reinterpret_cast<void*>(address);
  return result;
}
API cuMemFree_v2(Address address) {
  ENTER_GIVING_BACK(cuMemFree_v2);
  Result result = give_back(address, false);
  return told != 0 ? told : result;
}
API cuMemFreeHost(void* pointer) {
  ENTER_GIVING_BACK(cuMemFreeHost);
  Result result = give_back(reinterpret_cast<Address>(pointer), true);
  return told != 0 ? told : result;
}

static Result copy(Address to, Address from, std::size_t n_bytes, void* handle, bool is_from_host, bool is_to_host) {
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((!is_to_host && !is_reachable(to, n_bytes)) || (!is_from_host && !is_reachable(from, n_bytes))) {
    violation("a copy of " + std::to_string(n_bytes) + " bytes outside the device's memory");
    return INVALID_VALUE;
  }
  bool is_pageable = block_of(to, n_bytes) == nullptr || block_of(from, n_bytes) == nullptr;
  if (is_pageable && (is_from_host || is_to_host)) {
    if ((*stream)->is_captured) return STREAM_CAPTURE_UNSUPPORTED;
    run_all(**stream);
    if (sticky != 0) return sticky;
    DeviceOpen open;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n_bytes);
    return SUCCESS;
  }
  submit(**stream, [=] { copy_bytes(to, from, n_bytes); });
  return SUCCESS;
}

API cuMemcpyAsync(Address to, Address from, std::size_t n_bytes, void* stream) {
  ENTER_CONTEXT(cuMemcpyAsync, std::to_string(n_bytes));
  return copy(to, from, n_bytes, stream, false, false);
}
API cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t n_bytes, void* stream) {
  ENTER_CONTEXT(cuMemcpyHtoDAsync_v2, std::to_string(n_bytes));
  return copy(to, reinterpret_cast<Address>(from), n_bytes, stream, true, false);
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t n_bytes, void* stream) {
  ENTER_CONTEXT(cuMemcpyDtoHAsync_v2, std::to_string(n_bytes));
  return copy(reinterpret_cast<Address>(to), from, n_bytes, stream, false, true);
}
API cuMemsetD8Async(Address to, unsigned char byte, std::size_t n_bytes, void* handle) {
  ENTER_CONTEXT(cuMemsetD8Async, std::to_string(n_bytes));
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (!is_reachable(to, n_bytes)) return INVALID_VALUE;
  submit(**stream, [=] {
    if (!is_reachable(to, n_bytes)) return fail(ILLEGAL_ADDRESS, "a fill ran on memory that is gone");
    DeviceOpen open;
    std::memset(reinterpret_cast<void*>(to), byte, n_bytes);
  });
  return SUCCESS;
}

struct Location { int type, id; };
#ifndef STAND_IN_OLD_DRIVER
static Result hint(Address address, std::size_t n_bytes, Location location) {
  const Block* block = block_of(address, n_bytes);
  if (block == nullptr || block->kind != Kind::MANAGED) return INVALID_VALUE;
  return location.type == 1 || location.type == 2 ? SUCCESS : INVALID_DEVICE;
}
API cuMemPrefetchAsync_v2(Address address, std::size_t n_bytes, Location location, unsigned, void* stream) {
  ENTER_CONTEXT(cuMemPrefetchAsync_v2, std::to_string(n_bytes));
  return find(streams, stream) == nullptr ? INVALID_HANDLE : hint(address, n_bytes, location);
}
API cuMemAdvise_v2(Address address, std::size_t n_bytes, int advice, Location location) {
  ENTER_CONTEXT(cuMemAdvise_v2, std::to_string(advice));
  return hint(address, n_bytes, location);
}
#endif

// --- streams and events --------------------------------------------------------------------

API cuStreamCreate(void** handle, unsigned) {
  ENTER_CONTEXT(cuStreamCreate);
  *handle = new_handle();
  streams[*handle] = std::make_shared<Stream>();
  return SUCCESS;
}
API cuStreamDestroy_v2(void* handle) {
  ENTER_GIVING_BACK(cuStreamDestroy_v2);
  auto* stream = find(streams, handle);
  if (stream == nullptr) { violation("a stream destroyed twice"); return INVALID_HANDLE; }
  run_all(**stream);
  streams.erase(handle);
  return told;
}
API cuStreamSynchronize(void* handle) {
  ENTER_CONTEXT(cuStreamSynchronize);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->is_captured) return STREAM_CAPTURE_UNSUPPORTED;
  run_all(**stream);
  return sticky;
}
API cuStreamQuery(void* handle) {
  ENTER_CONTEXT(cuStreamQuery);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->is_captured) return STREAM_CAPTURE_UNSUPPORTED;
  if ((*stream)->queue.empty()) return SUCCESS;
  run_all(**stream);
  return sticky != 0 ? sticky : NOT_READY;
}
API cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  ENTER_CONTEXT(cuStreamWaitEvent);
  auto* stream = find(streams, handle);
  auto* event = find(events, event_handle);
  if (stream == nullptr || event == nullptr) return INVALID_HANDLE;
  if ((*stream)->is_captured) return STREAM_CAPTURE_UNSUPPORTED;
  std::shared_ptr<Stream> other = (*event)->stream;
  unsigned long ticket = (*event)->ticket;
  if (other) submit(**stream, [=] { run_until(*other, ticket); });
  return SUCCESS;
}
API cuEventCreate(void** handle, unsigned) {
  ENTER_CONTEXT(cuEventCreate);
  *handle = new_handle();
  events[*handle] = std::make_unique<Event>();
  return SUCCESS;
}
API cuEventDestroy_v2(void* handle) {
  ENTER_GIVING_BACK(cuEventDestroy_v2);
  if (events.erase(handle) == 0) { violation("an event destroyed twice"); return INVALID_HANDLE; }
  return told;
}
API cuEventRecord(void* handle, void* stream_handle) {
  ENTER_CONTEXT(cuEventRecord);
  auto* stream = find(streams, stream_handle);
  auto* event = find(events, handle);
  if (stream == nullptr || event == nullptr) return INVALID_HANDLE;
  if ((*stream)->is_captured) return STREAM_CAPTURE_UNSUPPORTED;
  auto time = std::make_shared<Clock::time_point>();
  submit(**stream, [=] { *time = Clock::now(); });
  (*event)->stream = *stream;
  (*event)->ticket = (*stream)->n_queued;
  (*event)->time = time;
  return SUCCESS;
}
API cuEventSynchronize(void* handle) {
  ENTER_CONTEXT(cuEventSynchronize);
  auto* event = find(events, handle);
  if (event == nullptr) return INVALID_HANDLE;
  if ((*event)->stream) run_until(*(*event)->stream, (*event)->ticket);
  return sticky;
}
API cuEventQuery(void* handle) {
  ENTER_CONTEXT(cuEventQuery);
  auto* event = find(events, handle);
  if (event == nullptr) return INVALID_HANDLE;
  if (!(*event)->stream || (*event)->stream->n_done >= (*event)->ticket) return SUCCESS;
  run_until(*(*event)->stream, (*event)->ticket);
  return sticky != 0 ? sticky : NOT_READY;
}
#ifndef STAND_IN_OLD_DRIVER
API cuEventElapsedTime_v2(float* ms, void* from, void* to) {
  ENTER_CONTEXT(cuEventElapsedTime_v2);
  auto* first = find(events, from);
  auto* last = find(events, to);
  if (first == nullptr || last == nullptr) return INVALID_HANDLE;
  for (Event* event : {first->get(), last->get()}) {
    if (!event->stream) return INVALID_HANDLE;
    if (event->stream->n_done < event->ticket) return NOT_READY;
  }
  *ms = std::chrono::duration<float, std::milli>(*(*last)->time - *(*first)->time).count();
  return SUCCESS;
}
#endif

// --- code ----------------------------------------------------------------------------------

// What the stand-in compiler writes: a first line, the architecture, one line per entry.
API cuModuleLoadData(void** handle, const void* image) {
  ENTER_CONTEXT(cuModuleLoadData);
  static const char MAGIC[] = "spark stand-in cubin\n";
  const char* text = static_cast<const char*>(image);
  if (std::strncmp(text, MAGIC, sizeof MAGIC - 1) != 0) return INVALID_IMAGE;
  std::string rest(text + sizeof MAGIC - 1);
  std::size_t end = rest.find('\n');
  if (rest.substr(0, end) != (persona() == SPARK ? "sm_121a" : "sm_90a")) return NO_BINARY_FOR_GPU;
  auto module = std::make_unique<Module>();
  while (end != std::string::npos && end + 1 < rest.size()) {
    std::size_t next = rest.find('\n', end + 1);
    module->entries.insert(rest.substr(end + 1, next - end - 1));
    end = next;
  }
  *handle = new_handle();
  modules[*handle] = std::move(module);
  return SUCCESS;
}
API cuModuleUnload(void* handle) {
  ENTER_GIVING_BACK(cuModuleUnload);
  run_everything();
  if (modules.erase(handle) == 0) { violation("a module unloaded twice"); return INVALID_HANDLE; }
  return told;
}
API cuModuleGetFunction(void** function, void* handle, const char* name) {
  ENTER_CONTEXT(cuModuleGetFunction, name);
  auto* module = find(modules, handle);
  if (module == nullptr) return INVALID_HANDLE;
  if ((*module)->entries.count(name) == 0) return NOT_FOUND;
  for (const spark_on_host::Kernel* kernel = spark_on_host::kernels; kernel != nullptr; kernel = kernel->next) {
    if (std::strcmp(kernel->name, name) == 0) {
      *function = const_cast<spark_on_host::Kernel*>(kernel);
      return SUCCESS;
    }
  }
  return NOT_FOUND;
}

static bool is_kernel(void* function) {
  for (const spark_on_host::Kernel* kernel = spark_on_host::kernels; kernel != nullptr; kernel = kernel->next)
    if (kernel == function) return true;
  return false;
}

API cuFuncSetAttribute(void* function, int attribute, int value) {
  ENTER_CONTEXT(cuFuncSetAttribute, std::to_string(value));
  if (!is_kernel(function)) return INVALID_HANDLE;
  int most = persona() == SPARK ? 101376 : 232448;
  return attribute == 8 && value > most ? INVALID_VALUE : SUCCESS;
}
// Threads bound it here; registers are unknown to a host compiler.
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n_blocks, void* function, int threads, std::size_t shared_bytes) {
  ENTER_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  if (!is_kernel(function) || threads <= 0 || threads > 1024) return INVALID_VALUE;
  int by_threads = (persona() == SPARK ? 1536 : 2048) / ((threads + 31) / 32 * 32);
  int by_shared = shared_bytes == 0 ? 32 : static_cast<int>(102400 / (shared_bytes + 1024));
  *n_blocks = std::min({32, by_threads, by_shared});
  return SUCCESS;
}

API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void* handle, void** arguments, void** extra) {
  ENTER_CONTEXT(cuLaunchKernel, is_kernel(function) ? static_cast<spark_on_host::Kernel*>(function)->name : "?");
  auto* stream = find(streams, handle);
  if (stream == nullptr || !is_kernel(function)) return INVALID_HANDLE;
  if (extra != nullptr || gx * gy * gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024) return INVALID_VALUE;
  auto* kernel = static_cast<const spark_on_host::Kernel*>(function);
  using Value = std::vector<std::uint64_t>;
  auto values = std::make_shared<std::vector<Value>>();
  for (std::size_t idx = 0; idx < kernel->n_arguments; ++idx) {
    Value value((kernel->argument_bytes[idx] + 7) / 8);
    std::memcpy(value.data(), arguments[idx], kernel->argument_bytes[idx]);
    values->push_back(std::move(value));
  }
  submit(**stream, [=] {
    if (Result code = kernel_fails()) { sticky = code; return; }
    std::vector<void*> places;
    for (std::size_t idx = 0; idx < values->size(); ++idx) {
      Value& value = (*values)[idx];
      places.push_back(value.data());
      bool is_gone = kernel->argument_bytes[idx] == 8 && is_in_arena(value[0]) && block_of(value[0], 1) == nullptr;
      if (is_gone) return fail(ILLEGAL_ADDRESS, std::string(kernel->name) + " was given memory that is gone");
    }
    DeviceOpen open;
    std::string wrong = spark_on_host::run_grid({gx, gy, gz}, {bx, by, bz}, shared_bytes,
                                                [&] { kernel->invoke(places.data()); });
    if (!wrong.empty()) fail(LAUNCH_TIMEOUT, std::string(kernel->name) + ": " + wrong);
  });
  return SUCCESS;
}

// --- graphs --------------------------------------------------------------------------------

API cuStreamBeginCapture_v2(void* handle, int) {
  ENTER_CONTEXT(cuStreamBeginCapture_v2);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->is_captured) return ILLEGAL_STATE;
  (*stream)->is_captured = true;
  (*stream)->captured.clear();
  return SUCCESS;
}
// One table holds recorded graphs and what is made of them: both are lists of work.
API cuStreamEndCapture(void* handle, void** graph) {
  ENTER_GIVING_BACK(cuStreamEndCapture);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (!(*stream)->is_captured) return ILLEGAL_STATE;
  (*stream)->is_captured = false;
  auto made = std::make_shared<Graph>(Graph{std::move((*stream)->captured)});
  if (told != 0) return told;
  *graph = new_handle();
  graphs[*graph] = made;
  return SUCCESS;
}
API cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long) {
  ENTER_CONTEXT(cuGraphInstantiateWithFlags);
  auto* found = find(graphs, graph);
  if (found == nullptr) return INVALID_HANDLE;
  std::shared_ptr<Graph> same = *found;
  *ready = new_handle();
  graphs[*ready] = same;
  return SUCCESS;
}
static Result drop_graph(void* graph, Result told) {
  run_everything();
  if (graphs.erase(graph) == 0) { violation("a graph destroyed twice"); return INVALID_HANDLE; }
  return told;
}
API cuGraphDestroy(void* graph) { ENTER_GIVING_BACK(cuGraphDestroy); return drop_graph(graph, told); }
API cuGraphExecDestroy(void* graph) { ENTER_GIVING_BACK(cuGraphExecDestroy); return drop_graph(graph, told); }
#ifndef STAND_IN_BROKEN_DRIVER
API cuGraphLaunch(void* graph, void* handle) {
  ENTER_CONTEXT(cuGraphLaunch);
  auto* found = find(graphs, graph);
  auto* stream = find(streams, handle);
  if (found == nullptr || stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->is_captured) return STREAM_CAPTURE_UNSUPPORTED;
  for (const Op& op : (*found)->ops) submit(**stream, op);
  return SUCCESS;
}
#endif

// --- for tests -----------------------------------------------------------------------------

extern "C" __attribute__((visibility("default"))) void stand_in_live(std::size_t counts[6]) {
  std::lock_guard<std::mutex> guard(lock);
  counts[0] = blocks.size();
  counts[1] = streams.size();
  counts[2] = events.size();
  counts[3] = modules.size();
  counts[4] = graphs.size();
  counts[5] = static_cast<std::size_t>(context_count);
}
