// Helpers that the tests of job keys share.
#pragma once

#include <string>

#include "trainer/transport/job_key.h"

namespace trainyard::engine {

// The key whose hexadecimal digits are all this one.
inline JobKey KeyOf(char digit) { return JobKey::Parse(std::string(2 * kJobKeyBytes, digit), "test").value(); }

}  // namespace trainyard::engine
