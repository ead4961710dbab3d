// The record, the faults, and the functions by which tests set and read them.

#include "record.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace stand_in {

std::mutex lock;

namespace {

struct Fault { long calls_left = -1; int code = 0; std::string name; bool stays = false; };

Persona posed = SPARK;
int posed_version = 13000;
std::vector<std::string> calls;
std::vector<std::string> violations;
Fault by_number, by_name;
long allocations_left = -1, kernels_left = -1;
int kernel_code = 0;

// A call that waits where it enters the driver, for tests of what other threads do meanwhile.
struct Hold {
  std::mutex lock;
  std::condition_variable changed;
  std::string name;      // the function, none if empty
  bool is_held = false;  // a thread waits here
  unsigned long n_let_go = 0;
};
Hold hold;
std::atomic<bool> has_hold{false};

void let_go() {
  std::lock_guard<std::mutex> guard(hold.lock);
  hold.name.clear();
  hold.is_held = false;
  has_hold = false;
  ++hold.n_let_go;
  hold.changed.notify_all();
}

// Counts one down; true when it was the one.
bool is_now(long& left) { return left >= 0 && left-- == 0; }

std::size_t give(const std::vector<std::string>& lines, char* buffer, std::size_t room) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  if (buffer != nullptr && room > 0) {
    std::size_t n = text.size() < room ? text.size() : room - 1;
    std::memcpy(buffer, text.data(), n);
    buffer[n] = 0;
  }
  return text.size();
}

// A program started as a process is posed by its environment and leaves its record in a file.
struct Process {
  Process() {
    const char* name = std::getenv("SPARK_STAND_IN_PERSONA");
    if (name != nullptr) posed = persona_of_word(name);
  }
  ~Process() {
    const char* path = std::getenv("SPARK_STAND_IN_RECORD");
    if (path == nullptr) return;
    if (std::FILE* file = std::fopen(path, "w")) {
      for (const std::string& line : calls) std::fprintf(file, "%s\n", line.c_str());
      for (const std::string& line : violations) std::fprintf(file, "VIOLATION %s\n", line.c_str());
      std::fclose(file);
    }
  }
} process;

}  // namespace

Persona persona() { return posed; }
int attribute(int number) { return attribute_of(posed, number); }
int driver_version() { return posed_version; }

static thread_local int n_without_device = 0;
NoDevice::NoDevice() { ++n_without_device; }
NoDevice::~NoDevice() { --n_without_device; }

void pass(const char* call) {
  if (!has_hold || n_without_device > 0) return;
  std::unique_lock<std::mutex> guard(hold.lock);
  if (hold.name != call || hold.is_held) return;
  hold.is_held = true;
  hold.changed.notify_all();
  unsigned long before = hold.n_let_go;
  hold.changed.wait(guard, [=] { return hold.n_let_go != before; });
}

int enter(const char* call, const std::string& detail) {
  constexpr int NO_DEVICE = 100;
  if (n_without_device > 0) return NO_DEVICE;
  calls.push_back(detail.empty() ? call : std::string(call) + ' ' + detail);
  if (is_now(by_number.calls_left)) return by_number.code;
  if (by_name.name == call && (by_name.stays || is_now(by_name.calls_left))) return by_name.code;
  return 0;
}

void violation(const std::string& text) { violations.push_back(text); }
bool allocation_fails() { return is_now(allocations_left); }
int kernel_fails() { return is_now(kernels_left) ? kernel_code : 0; }

}  // namespace stand_in

using namespace stand_in;

#pragma GCC visibility push(default)
extern "C" {

void stand_in_pose(int which) {
  let_go();
  std::lock_guard<std::mutex> guard(lock);
  forget_driver_state();
  posed = which > 0 && which < N_PERSONAS ? static_cast<Persona>(which) : SPARK;
  posed_version = 13000;
  calls.clear();
  violations.clear();
  by_number = {};
  by_name = {};
  allocations_left = kernels_left = -1;
}

// The CUDA version that the driver says it has, as 12040.
void stand_in_set_version(int version) {
  std::lock_guard<std::mutex> guard(lock);
  posed_version = version;
}

void stand_in_fail_call(long nth, int code) {
  std::lock_guard<std::mutex> guard(lock);
  by_number = {nth, code, {}};
}

void stand_in_fail_named(const char* name, long nth, int code) {
  std::lock_guard<std::mutex> guard(lock);
  by_name = {nth, code, name};
}

// Until another function's fault is set.
void stand_in_fail_every(const char* name, int code) {
  std::lock_guard<std::mutex> guard(lock);
  by_name = {0, code, name, true};
}

void stand_in_fail_allocation(long nth) {
  std::lock_guard<std::mutex> guard(lock);
  allocations_left = nth;
}

void stand_in_fail_kernel(long nth, int code) {
  std::lock_guard<std::mutex> guard(lock);
  kernels_left = nth;
  kernel_code = code;
}

// The next call of this function waits until it is let go.
void stand_in_hold(const char* name) {
  std::lock_guard<std::mutex> guard(hold.lock);
  hold.name = name;
  hold.is_held = false;
  has_hold = true;
}

// Waits until a call is held; 0 if none was within this time.
int stand_in_await_held(unsigned ms) {
  std::unique_lock<std::mutex> guard(hold.lock);
  return hold.changed.wait_for(guard, std::chrono::milliseconds(ms), [] { return hold.is_held; });
}

void stand_in_let_go() { let_go(); }

// Writes a call of another library of the stand-in down.
int stand_in_enter(const char* call) {
  std::lock_guard<std::mutex> guard(lock);
  return enter(call);
}

std::size_t stand_in_n_calls() {
  std::lock_guard<std::mutex> guard(lock);
  return calls.size();
}

std::size_t stand_in_calls(char* buffer, std::size_t room) {
  std::lock_guard<std::mutex> guard(lock);
  return give(calls, buffer, room);
}

std::size_t stand_in_violations(char* buffer, std::size_t room) {
  std::lock_guard<std::mutex> guard(lock);
  return give(violations, buffer, room);
}

}  // extern "C"
#pragma GCC visibility pop
