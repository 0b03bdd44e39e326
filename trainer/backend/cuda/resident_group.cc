#include "trainer/backend/cuda/resident_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine::cuda {

absl::StatusOr<std::unique_ptr<ResidentGroup>> ResidentGroup::Create(std::span<const GroupPlace> places,
                                                                     const DeviceTrainingOptions& options) {
  TY_CHECK(places.size() >= 2 && places.size() <= MeanOverDevices::kMost);
  std::unique_ptr<ResidentGroup> group(new ResidentGroup);
  for (const GroupPlace& place : places) {
    group->members_.push_back({.device = place.device, .health = place.health, .loss_scale = place.loss_scale});
  }
  TY_RETURN_IF_ERROR(group->Open(options));
  return group;
}

absl::Status ResidentGroup::Open(const DeviceTrainingOptions& options) {
  for (size_t device = 0; device < members_.size(); ++device) {
    Member& own = members_[device];
    TY_ASSIGN_OR_RETURN(own.training, ResidentTraining::Create(own.device, own.health, own.loss_scale, options, UpdateOf::kGroup));
    if (const auto floats = static_cast<size_t>(SliceOf(device).size) * (members_.size() - 1); floats > 0) {
      TY_ASSIGN_OR_RETURN(own.addends, own.device.Allocate("the gradients of other devices", floats * sizeof(float)));
    }
    for (std::unique_ptr<Mark>* const mark : {&own.ready, &own.summed, &own.taken}) {
      TY_ASSIGN_OR_RETURN(*mark, own.device.MakeMark());
    }
    for (const Member& peer : members_) {
      if (&peer != &own) TY_RETURN_IF_ERROR(own.device.Meet(peer.device));
    }
  }
  return absl::OkStatus();
}

// Copies of one device may still read another's memory. A failure here is nobody's any more.
ResidentGroup::~ResidentGroup() {
  for (const Member& member : members_) member.device.Wait().IgnoreError();
}

// Whole aligned blocks, so the last devices may have less, or none.
ResidentGroup::Slice ResidentGroup::SliceOf(size_t device) const {
  constexpr int64_t kBlock = kBufferAlignment / sizeof(float);
  const int64_t all = members_[0].training->all();
  const auto devices = static_cast<int64_t>(members_.size());
  const int64_t most = (all + devices * kBlock - 1) / (devices * kBlock) * kBlock;
  const int64_t begin = std::min(all, static_cast<int64_t>(device) * most);
  return {.begin = begin, .size = std::min(all, begin + most) - begin};
}

absl::Status ResidentGroup::BeginStep(int device, const UpdateContext& context, float weight) {
  Member& own = members_[static_cast<size_t>(device)];
  for (const Member& peer : members_) {
    if (&peer != &own) own.health.Try("the end of the step before", [&] { return own.device.WaitFor(*peer.taken); });
  }
  return own.training->BeginStep(context, weight);
}

absl::Status ResidentGroup::Update(const std::vector<bool>& with_examples, ThreadPool& threads) {
  TY_CHECK(with_examples.size() == members_.size());
  if (std::ranges::count(with_examples, true) == 0) return absl::OkStatus();
  TY_RETURN_IF_ERROR(OnEach(threads, [this](size_t device) {
    Member& own = members_[device];
    own.health.Try("the gradients", [&] { return own.ready->Set(); });
  }));
  TY_RETURN_IF_ERROR(OnEach(threads, [&](size_t device) { Sum(device, with_examples); }));
  return OnEach(threads, [this](size_t device) {
    Gather(device);
    members_[device].training->Apply();
  });
}

absl::Status ResidentGroup::OnEach(ThreadPool& threads, absl::FunctionRef<void(size_t)> work) {
  threads.Run(devices(), [&](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t device = begin; device < end; ++device) work(static_cast<size_t>(device));
  });
  for (const Member& member : members_) TY_RETURN_IF_ERROR(member.health.status());
  return absl::OkStatus();
}

// Phase 2. Each device begins with its right neighbour, so that not all read one at once.
void ResidentGroup::Sum(size_t device, const std::vector<bool>& with_examples) {
  Member& own = members_[device];
  const Slice slice = SliceOf(device);
  float* const mean = own.training->results() + slice.begin;
  own.health.Try("the sum over the devices", [&]() -> absl::Status {
    MeanOverDevices work{.addends = {},
                         .mean = mean,
                         .gradients = std::max(int64_t{0}, own.training->gradients() - slice.begin),
                         .divisor = static_cast<float>(members_.size()),
                         .divisor_of_values = static_cast<float>(std::ranges::count(with_examples, true))};
    int64_t copied = 0;
    for (size_t turn = 1; turn <= members_.size() && slice.size > 0; ++turn) {
      const size_t other = (device + turn) % members_.size();
      if (!with_examples[other]) continue;
      work.addends[other] = mean;
      if (other == device) continue;
      const Member& peer = members_[other];
      auto* const copy = reinterpret_cast<float*>(own.addends->data()) + copied++ * slice.size;
      TY_RETURN_IF_ERROR(own.device.WaitFor(*peer.ready));
      TY_RETURN_IF_ERROR(
          own.device.CopyFrom(peer.device, peer.training->results() + slice.begin, static_cast<size_t>(slice.size) * sizeof(float), copy));
      work.addends[other] = copy;
    }
    TY_RETURN_IF_ERROR(own.device.Launch(Each<MeanOverDevices>{work, slice.size}));
    return own.summed->Set();
  });
}

// Phase 3, up to the optimizer. In the same turn.
void ResidentGroup::Gather(size_t device) {
  Member& own = members_[device];
  own.health.Try("the gradients of other devices", [&]() -> absl::Status {
    for (size_t turn = 1; turn < members_.size(); ++turn) {
      const size_t other = (device + turn) % members_.size();
      const Slice slice = SliceOf(other);
      if (slice.size == 0) continue;
      const Member& peer = members_[other];
      TY_RETURN_IF_ERROR(own.device.WaitFor(*peer.summed));
      TY_RETURN_IF_ERROR(own.device.CopyFrom(peer.device, peer.training->results() + slice.begin,
                                             static_cast<size_t>(slice.size) * sizeof(float), own.training->results() + slice.begin));
    }
    return own.taken->Set();
  });
}

}  // namespace trainyard::engine::cuda
