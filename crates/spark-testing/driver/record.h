// What the stand-in remembers and is told: calls, faults, what is alive.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "personas.h"

namespace stand_in {

extern std::mutex lock;

Persona persona();
// The posed GPU's answer to an attribute.
int attribute(int number);
// The CUDA version that the driver says it has, as 13000.
int driver_version();

// Waits if this call is the one that is held; before `lock` is taken, so that others go on.
void pass(const char* call);
// Writes a call down; returns the code it must fail with, 0 if none. `detail` may be empty.
int enter(const char* call, const std::string& detail = {});
// While one of these lives, calls of this thread come from a library that looks for a GPU on its own:
// they are told that there is none, and leave no trace.
struct NoDevice { NoDevice(); ~NoDevice(); };
// Writes down that a program broke a rule of the driver; tests expect none.
void violation(const std::string& text);

// Whether this allocation is the one that finds no memory.
bool allocation_fails();
// The code with which this kernel fails when it runs, 0 if it does not.
int kernel_fails();

// Back to a driver that nobody has used (state.cpp).
void forget_driver_state();

}  // namespace stand_in
