"""How much of a step's time the ops have that Kiln routes: kernels by torch.profiler, which knows by
correlation in which op each was launched. Imported only.
"""
import torch

# By family: ATen's ops, with all that is launched within them, casts of autocast too.
ROUTED = {
    "layer_norm": ("aten::layer_norm", "aten::native_layer_norm", "aten::native_layer_norm_backward"),
    "rms_norm": ("aten::rms_norm", "aten::_fused_rms_norm", "aten::_fused_rms_norm_backward"),
    "softmax": ("aten::softmax", "aten::_softmax", "aten::_softmax_backward_data"),
    "cross_entropy": ("aten::cross_entropy_loss", "aten::nll_loss_backward"),
    "log_softmax": ("aten::log_softmax", "aten::_log_softmax", "aten::_log_softmax_backward_data"),
    "dropout": ("aten::native_dropout", "aten::native_dropout_backward"),
    "gelu": ("aten::gelu", "aten::gelu_backward"),
    "attention": ("aten::scaled_dot_product_attention",
                  "aten::_scaled_dot_product_flash_attention_backward",
                  "aten::_scaled_dot_product_efficient_attention_backward",
                  "aten::_scaled_dot_product_cudnn_attention_backward"),
    "silu": ("aten::silu", "aten::silu_backward"),
}
# Backwards of Kiln's own, where it routes an op above autograd.
NODES = {"KilnLayerNormBackward": "layer_norm", "KilnRmsNormBackward": "rms_norm",
         "KilnSoftmaxBackward": "softmax", "KilnCrossEntropyBackward": "cross_entropy",
         "KilnAttentionBackward": "attention"}
FAMILIES = {op: family for family, ops in ROUTED.items() for op in ops}


def family_of(event):
    """Of the outermost routed op that an event lies in; None: in none."""
    family = None
    while event is not None:
        name = event.name.removeprefix("autograd::engine::evaluate_function: ")
        family = FAMILIES.get(name) or NODES.get(name) or family
        event = event.cpu_parent
    return family


def times_by_family(step, steps, device):
    """Milliseconds a step, of kernels launched in routed ops by family, and of "all" kernels. On a
    CPU, where ops are what runs, of the ops themselves."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
    times = {"all": 0.0}
    for event in profile.events():
        if event.device_type != torch.autograd.DeviceType.CPU:
            continue
        micros = (sum(kernel.duration for kernel in event.kernels) if device == "cuda"
                  else event.self_cpu_time_total)
        if micros <= 0:
            continue
        times["all"] += micros * 1e-3 / steps
        if family := family_of(event):
            times[family] = times.get(family, 0.0) + micros * 1e-3 / steps
    return times
