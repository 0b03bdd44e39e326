// The entry points of one instruction set, whose name the build gives as TRAINYARD_ISA: a
// namespace, so that several sets link into one program. kernels.h describes each at its place in
// the table.
#pragma once

#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine::TRAINYARD_ISA {

void ConvForward(const ConvForwardArgs& args, const ConvForwardRange& range);
void ConvWeightGradient(const ConvWeightGradientArgs& args);
int ConvWeightGradientBlock(const ConvShape& shape);
void Pack(const PackArgs& args);
void Product(const ProductArgs& args);
void ConvRows(const ConvRowsArgs& args);
void WinogradInput(const WinogradArgs& args);
void WinogradOutput(const WinogradArgs& args);
void WinogradPanelInput(const WinogradPanelArgs& args);
void WinogradPanelOutput(const WinogradPanelArgs& args);
void WinogradPanelPool(const WinogradPanelArgs& args);
void WinogradPanelWeights(const WinogradWeightsArgs& args);
void WinogradPanelOutputGradient(const WinogradPanelArgs& args);
void WinogradPanelInputGradient(const WinogradPanelArgs& args);
void WinogradOutputGradient(const WinogradGradientArgs& args);
void WinogradWeightGradient(const WinogradWeightGradientArgs& args);

void ActivateVectors(const float* x, float* y, int64_t vectors, Activation activation);
void ActivateGradient(const float* dy, const float* y, float* dx, int64_t vectors, Activation activation);
void Add(const float* const* terms, int count, float* y, int64_t begin, int64_t end);
void Bias(const float* x, const float* bias, float* y, int64_t pixels, int channels);
void Dropout(const DropoutArgs& args);
void BiasGradient(const float* dy, float* db, int64_t pixels, int channels, int begin, int end);

void MaxPool(const PoolArgs& args, int begin, int end);
void MaxPoolGradient(const PoolArgs& args, int begin, int end);
void AveragePool(const PoolArgs& args, int begin, int end);
void AveragePoolGradient(const PoolArgs& args, int begin, int end);

void BatchNormMoments(const BatchNormArgs& args);
void BatchNormApply(const BatchNormArgs& args);
void BatchNormGradientSums(const BatchNormArgs& args);
void BatchNormGradientApply(const BatchNormArgs& args);
double SumOfSquares(const float* x, int64_t elements);

void Softmax(const float* x, float* y, int64_t pixels, int classes);
void SoftmaxGradient(const float* dy, const float* y, float* dx, int64_t pixels, int classes);
double CrossEntropy(const LossArgs& args);
void CrossEntropyGradient(const LossArgs& args);
int64_t CorrectCount(const LossArgs& args);
double SquaredError(const LossArgs& args);
void SquaredErrorGradient(const LossArgs& args);

void ToPanelsF32(const ConvertArgs& args);
void ToPanelsU8(const ConvertArgs& args);
void FromPanelsF32(const ConvertArgs& args);
void FromPanelsU8(const ConvertArgs& args);
void PanelsToRows(const float* x, float* rows, int64_t pixels, int channels, int64_t stride);

void PackRows(const PackRowsArgs& args);
void DropoutRows(const DropoutArgs& args);
void MaxPoolRows(const PoolArgs& args, int begin, int end);
void AveragePoolRows(const PoolArgs& args, int begin, int end);
void ScaleRows(const BatchNormArgs& args);
void RecurrentStep(const RecurrentStepArgs& args);
void RecurrentStepGradient(const RecurrentStepGradientArgs& args);
void SoftmaxRows(const RowLossArgs& args);
void CrossEntropyRows(const RowLossArgs& args);
void CrossEntropyGradientRows(const RowLossArgs& args);
void CorrectRows(const RowLossArgs& args);
void ExpRows(const ExpRowsArgs& args);
void ExpRowsEnd(const ExpRowsEndArgs& args);

void ProductBf16(const Bf16ProductArgs& args);

double MultiplyAdds(int64_t rounds, float* sink);

extern const KernelTable kTable;

}  // namespace trainyard::engine::TRAINYARD_ISA
