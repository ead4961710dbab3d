// The record, the faults, and the functions by which tests set and read them.

#include "record.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace stand_in {

std::mutex lock;

namespace {

struct Fault { long calls_left = -1; int code = 0; std::string name; };

Persona posed = SPARK;
std::vector<std::string> calls;
std::vector<std::string> violations;
Fault by_number, by_name;
long allocations_left = -1, kernels_left = -1;
int kernel_code = 0;

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
    if (name != nullptr && std::strcmp(name, "card") == 0) posed = CARD;
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

int enter(const char* call, const std::string& detail) {
  calls.push_back(detail.empty() ? call : std::string(call) + ' ' + detail);
  if (is_now(by_number.calls_left)) return by_number.code;
  if (by_name.name == call && is_now(by_name.calls_left)) return by_name.code;
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
  std::lock_guard<std::mutex> guard(lock);
  forget_driver_state();
  posed = which == CARD ? CARD : SPARK;
  calls.clear();
  violations.clear();
  by_number = {};
  by_name = {};
  allocations_left = kernels_left = -1;
}

void stand_in_fail_call(long nth, int code) {
  std::lock_guard<std::mutex> guard(lock);
  by_number = {nth, code, {}};
}

void stand_in_fail_named(const char* name, long nth, int code) {
  std::lock_guard<std::mutex> guard(lock);
  by_name = {nth, code, name};
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
