"""The client of the Asynchronous Task Service. Its page is the description of this package."""

from ._pages import Page
from ._transport import Retry
from .client import TaskServiceClient
from .errors import (
    ApiError,
    AuthenticationError,
    ConflictError,
    ConnectionError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    TaskServiceError,
    TimeoutError,
    ValidationError,
)
from .tasks import is_terminal, output_text
from .tools import Tool
from .webhooks import VerifiedWebhook, WebhookVerificationError, verify_webhook

__all__ = [
    "ApiError",
    "AuthenticationError",
    "ConflictError",
    "ConnectionError",
    "NotFoundError",
    "Page",
    "PermissionDeniedError",
    "RateLimitError",
    "Retry",
    "ServerError",
    "TaskServiceClient",
    "TaskServiceError",
    "TimeoutError",
    "Tool",
    "ValidationError",
    "VerifiedWebhook",
    "WebhookVerificationError",
    "is_terminal",
    "output_text",
    "verify_webhook",
]
