#include "operator/children/child_kinds.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

constexpr ChildKind kKinds[] = {ChildKind::kPod,    ChildKind::kService,  ChildKind::kConfigMap,
                                ChildKind::kSecret, ChildKind::kPodGroup, ChildKind::kDeployment};

TEST(ChildKinds, EachBuildsAnObjectOfItsOwnResource) {
  for (const char* framework : {"Trainyard", "MPI"}) {
    for (const char* gang : {"Volcano", "Coscheduling", "Native"}) {
      const TrainingJob job = MakeJob()
                                  .Framework(framework)
                                  .Replicas("worker", 1)
                                  .Policy("scheduling", {{"gang", gang}})
                                  .Claim("c")
                                  .Set("/spec/serve/replicas", 1)
                                  .Build();
      for (const ChildKind kind : kKinds) {
        const ChildTraits& traits = TraitsOf(kind);
        const nlohmann::json object = traits.build(job, {kind, "", "", "", ReplicaId{Role::kWorker, 0}}, {});
        EXPECT_EQ(object["kind"], traits.name);
        EXPECT_EQ(object["kind"], traits.resource(job).kind);
        EXPECT_EQ(object["apiVersion"], traits.resource(job).ApiVersion()) << traits.name;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::control
