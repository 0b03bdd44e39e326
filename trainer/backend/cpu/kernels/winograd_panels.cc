// Winograd's transforms of panels of f32.
#include "trainer/backend/cpu/kernels/winograd_panels.h"

#include "trainer/backend/cpu/kernels/isa.h"

namespace trainyard::engine::TRAINYARD_ISA {

void WinogradPanelInput(const WinogradPanelArgs& args) { WinogradPanelsOf<WidePanels>::Input(args); }
void WinogradPanelOutput(const WinogradPanelArgs& args) { WinogradPanelsOf<WidePanels>::Output(args); }
void WinogradPanelPool(const WinogradPanelArgs& args) { WinogradPanelsOf<WidePanels>::Pool(args); }
void WinogradPanelOutputGradient(const WinogradPanelArgs& args) { WinogradPanelsOf<WidePanels>::OutputGradient(args); }
void WinogradPanelWeights(const WinogradWeightsArgs& args) { WinogradPanelsOf<WidePanels>::Weights(args); }

}  // namespace trainyard::engine::TRAINYARD_ISA
