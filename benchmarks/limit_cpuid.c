// Hides instruction sets from every program that asks the processor for them by CPUID: preloaded,
// with TRAINYARD_INSTRUCTIONS=avx2 | avx512 | avx512bf16. CPUID then raises SIGSEGV (arch_prctl(2),
// ARCH_SET_CPUID), whose handler answers without the bits of what is hidden. The places of the bits
// are those of Intel's Software Developer's Manual, volume 2, CPUID.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kAvx2, kAvx512, kAvx512Bf16 };
static int most;

#define BIT(n) (UINT32_C(1) << (n))

static void Hide(uint32_t leaf, uint32_t subleaf, uint32_t* a, uint32_t* b, uint32_t* c, uint32_t* d) {
  if (leaf == 7 && subleaf == 0) {
    *d &= ~(BIT(22) | BIT(23) | BIT(24) | BIT(25));  // AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8
    if (most == kAvx2) {
      *b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));  // F DQ IFMA PF ER CD BW VL
      *c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));                                  // VBMI VBMI2 VNNI BITALG VPOPCNTDQ
      *d &= ~(BIT(2) | BIT(3) | BIT(8));                                                       // 4VNNIW 4FMAPS VP2INTERSECT
    }
  }
  if (leaf == 7 && subleaf == 1) {
    *a &= ~BIT(21);                                // AMX-FP16
    if (most != kAvx512Bf16) *a &= ~BIT(5);        // AVX512-BF16
    if (most == kAvx2) *a &= ~(BIT(4) | BIT(23));  // AVX-VNNI, AVX-IFMA: newer than what has AVX2 alone
  }
}

static int LetCpuid(int lets) { return (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, lets); }

static void OnFault(int number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint8_t* const at = (const uint8_t*)registers[REG_RIP];
  if (at[0] != 0x0f || at[1] != 0xa2) {
    signal(number, SIG_DFL);  // a fault of the program: it ends by it
    return;
  }
  const uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX];
  uint32_t a, b, c, d;
  LetCpuid(1);
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(subleaf));
  LetCpuid(0);
  Hide(leaf, subleaf, &a, &b, &c, &d);
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void Start(void) {
  const char* const name = getenv("TRAINYARD_INSTRUCTIONS");
  if (name == NULL) return;
  most = strcmp(name, "avx2") == 0 ? kAvx2 : strcmp(name, "avx512") == 0 ? kAvx512 : kAvx512Bf16;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  if (sigaction(SIGSEGV, &action, NULL) != 0 || LetCpuid(0) != 0) {
    perror("limit_cpuid: this processor or kernel cannot hide instruction sets (cpuid_fault in /proc/cpuinfo)");
    _exit(1);
  }
}
