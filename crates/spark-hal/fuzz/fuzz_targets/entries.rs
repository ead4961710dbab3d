//! The same content in every kind of one-value entry: firmware strings, CPU and link
//! numbers, the device tree's model.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spark_hal_fuzz::machine_with_files(
        &[
            "proc/device-tree/model",
            "proc/sys/kernel/osrelease",
            "sys/bus/pci/devices/0000:01:00.0/current_link_width",
            "sys/bus/pci/devices/0000:01:00.0/class",
            "sys/class/dmi/id/product_name",
            "sys/class/dmi/id/product_version",
            "sys/class/dmi/id/sys_vendor",
            "sys/class/net/eth9/carrier",
            "sys/class/net/eth9/mtu",
            "sys/class/net/eth9/speed",
            "sys/class/nvme/nvme0/device/current_link_speed",
            "sys/class/nvme/nvme0/device/max_link_speed",
            "sys/devices/soc0/soc_id",
            "sys/devices/system/cpu/cpu0/cache/index3/level",
            "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
            "sys/devices/system/cpu/cpu0/cpu_capacity",
            "sys/devices/system/cpu/cpu0/regs/identification/midr_el1",
            "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
            "sys/module/cppc_cpufreq/parameters/auto_sel_mode",
            "sys/module/nvidia/version",
        ]
        .map(|path| (path, bytes)),
    );
});
