// What the files of the stand-in driver share: its tables, its memory, its queues of work.
//
//   personas.cpp      what it poses as                 record.cpp   calls, faults, violations
//   state.cpp         device memory, queues, what runs when
//   driver.cpp        devices, contexts                 memory.cpp   allocating, copying, hints
//   streams.cpp       streams, events                   graphs.cpp   captures and graphs, as DAGs
//   code.cpp          modules, attributes, symbols      launch.cpp   kernels
//   interpreted.cpp   modules and kernels in PTX
//
// Types and numbers are those of cuda.h, CUDA 13.0. Every function of the driver waits if it is
// held, locks, writes itself down and fails if it was told to: `ENTER` and its relatives.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fibers.h"
#include "interpreter.h"
#include "record.h"

namespace stand_in {

using Clock = std::chrono::steady_clock;
using Result = int;
using Address = unsigned long long;

enum : Result {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  INVALID_PTX = 218,
  UNSUPPORTED_PTX_VERSION = 222,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_OUT_OF_RESOURCES = 701,
  LAUNCH_TIMEOUT = 702,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURED_EVENT = 907,
};

enum class Kind { DEVICE, MANAGED, PINNED };

// `is_ready`: the stream that allocated it has come so far; `is_going`: a stream will free it.
struct Block { std::size_t n_bytes; Kind kind; bool is_ready = true, is_going = false; };

constexpr std::size_t PAGE = 4096;

// A piece of work. It runs when something waits for it.
struct Op { std::function<void()> run; bool is_kernel = false; };

// A piece of work in a graph, after others of the same graph.
struct Node { Op op; std::vector<std::size_t> after; };
struct Stream;
// What is being recorded: by the stream that began, and by those that joined it.
struct Capture { Stream* origin; std::vector<Node> nodes; };

struct Stream {
  std::deque<Op> queue;
  unsigned long n_queued = 0, n_done = 0;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;  // nodes that what is recorded next comes after
};
struct Event {
  bool is_timed = true;
  std::shared_ptr<Stream> stream;
  unsigned long ticket = 0;
  std::shared_ptr<Clock::time_point> time;
  // Recorded in a capture: which, and behind which nodes.
  bool is_captured = false;
  std::weak_ptr<Capture> capture;
  std::vector<std::size_t> nodes;
};
// A kernel of a module. Parameters are known of PTX alone.
// Registers of a thread are what NVIDIA's assembler says; 0 where it was not asked.
struct Entry {
  std::size_t static_bytes = 0, parameter_bytes = 0;
  std::vector<Parameter> parameters;
  unsigned registers = 0;
  // What `__launch_bounds__` and its like say of a block; 0 where they say nothing.
  std::size_t most_threads = 0, required_block[3] = {};
};
// `code` is the interpreter's number for its PTX; 0 if the host compiler built its kernels.
struct Module { std::map<std::string, Entry> entries; std::uint64_t code = 0; std::vector<Variable> variables; };
// A kernel of a module: every module has its own. `kernel` is null where it is interpreted.
struct Function {
  const spark_on_host::Kernel* kernel;
  std::string name;
  void* module;
  Entry entry;
  std::size_t most_dynamic;
};
struct Graph { std::vector<Node> nodes; unsigned long n_launched = 0; };

extern std::map<Address, Block> blocks;
extern std::map<void*, std::shared_ptr<Stream>> streams;
extern std::map<void*, std::unique_ptr<Event>> events;
extern std::map<void*, std::unique_ptr<Module>> modules;
extern std::map<void*, std::unique_ptr<Function>> functions;
extern std::map<void*, std::shared_ptr<Graph>> graphs;
extern int context_count;
extern Result sticky;
extern thread_local void* current_context;

// While one of these lives, device memory can be touched, and managed memory that is the GPU's.
struct DeviceOpen { DeviceOpen(); ~DeviceOpen(); };

Address take_device(std::size_t n_bytes);
void give_device(Address address, std::size_t n_bytes);
bool is_in_arena(Address address);
// The block that holds a whole range and is not promised to go, or null.
const Block* block_of(Address address, std::size_t n_bytes);
// Whether the device may be told of these bytes: an allocation, or plain memory it can reach.
bool is_reachable(Address address, std::size_t n_bytes);
// Whether work that runs now may touch them.
bool is_usable(Address address, std::size_t n_bytes);

void run_until(Stream& stream, unsigned long ticket);
void run_all(Stream& stream);
void run_everything();
// Reads PTX and takes memory for its variables; the reason if it is refused and a real driver takes it.
Result load_ptx(const std::string& ptx, Module& module, std::string& why);
// Gives the interpreter's part of a module back.
void unload_ptx(Module& module);
// Runs a kernel in PTX, now.
void run_ptx(const Function& function, const unsigned* grid, const unsigned* block, unsigned shared_bytes,
             const std::vector<unsigned char>& parameters);
// Notes that the device's bytes have been written.
void note_written(Address address, std::size_t n_bytes);

// Queues work, or adds it to what the stream records.
void submit(Stream& stream, Op op);
// Queues work in any case.
void enqueue(Stream& stream, Op op);
// Lets the host use managed memory, or not, as the kernels that are queued demand.
void share_managed();
// A piece of it, as they demand, or in any case.
void share_block(Address address, std::size_t n_bytes, bool is_shared);
// Registers that a block takes of a multiprocessor: warps of four at a time, 256 registers each at a time.
std::size_t registers_of_block(unsigned registers, std::size_t threads);
// Lets work that runs fail: the context is lost.
void fail(Result code, const std::string& why);

void* context_handle();
void* new_handle();
std::string hexadecimal(Address value);

template <class Map>
typename Map::mapped_type* find(Map& map, void* handle) {
  auto found = map.find(handle);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace stand_in

#define API extern "C" __attribute__((visibility("default"))) stand_in::Result
// Every function: wait if held, lock, write down, fail if told to.
#define ENTER(name, ...)                                        \
  pass(#name);                                                  \
  std::lock_guard<std::mutex> guard(lock);                      \
  if (Result code = enter(#name, ##__VA_ARGS__)) return code
// As ENTER for what needs a context that works.
#define ENTER_CONTEXT(name, ...)                                \
  ENTER(name, ##__VA_ARGS__);                                   \
  if (current_context != context_handle()) return INVALID_CONTEXT; \
  if (sticky != 0) return sticky
// As ENTER_CONTEXT for what gives back: it does so even when it reports an error.
#define ENTER_GIVING_BACK(name, ...)                            \
  pass(#name);                                                  \
  std::lock_guard<std::mutex> guard(lock);                      \
  Result told = enter(#name, ##__VA_ARGS__);                    \
  if (current_context != context_handle()) return INVALID_CONTEXT; \
  if (told == 0) told = sticky
