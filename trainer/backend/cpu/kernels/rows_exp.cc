#include "trainer/backend/cpu/kernels/rows_exp.h"

#include "trainer/backend/cpu/kernels/isa.h"

namespace trainyard::engine::TRAINYARD_ISA {

void ExpRows(const ExpRowsArgs& args) { ExpRowsOf<WideRows>::Run(args); }
void ExpRowsEnd(const ExpRowsEndArgs& args) { ExpRowsOf<WideRows>::End(args); }

}  // namespace trainyard::engine::TRAINYARD_ISA
