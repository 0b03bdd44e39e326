// Several lambdas as one visitor for std::visit.
#pragma once

namespace trainyard::engine {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

}  // namespace trainyard::engine
