"""The calls of the API that this package makes, over one channel."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import admin_service_pb2 as admin
from . import admission_service_pb2 as admission
from . import telemetry_service_pb2 as telemetry


class Calls:
    """`channel` is a grpc.aio.Channel; each attribute is called as a stub's method is."""

    def __init__(self, channel: Any) -> None:
        def call(kind: Any, service: str, name: str, request: Any, response: Any) -> Any:
            return kind(
                f"/stageload.v1.{service}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )

        unary = partial(call, channel.unary_unary)
        stream = partial(call, channel.unary_stream)

        self.get_version = unary(
            "AdminService", "GetVersion", admin.GetVersionRequest, admin.GetVersionResponse
        )
        self.register = stream(
            "AdmissionService", "Register", admission.RegisterRequest, admission.RegisterResponse
        )
        self.acquire = stream(
            "AdmissionService", "Acquire", admission.AcquireRequest, admission.AcquireResponse
        )
        self.release = unary(
            "AdmissionService", "Release", admission.ReleaseRequest, admission.ReleaseResponse
        )
        self.report = unary(
            "AdmissionService", "Report", admission.ReportRequest, admission.ReportResponse
        )
        self.watch_process = stream(
            "TelemetryService",
            "WatchProcess",
            telemetry.WatchProcessRequest,
            telemetry.WatchProcessResponse,
        )
        self.get_snapshot = unary(
            "TelemetryService",
            "GetSnapshot",
            telemetry.GetSnapshotRequest,
            telemetry.GetSnapshotResponse,
        )
