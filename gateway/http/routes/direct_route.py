"""Route class of the gateway's hot endpoints: calls a route's function without FastAPI's solver of dependencies.

FastAPI declares and documents the route as any other. But it solves the dependencies anew for each request, which takes
as long as authenticating the caller; a function that needs only its request and what one dependency returns is called
directly.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from gateway.http.dependencies import BodySecurity


class DirectRoute(APIRoute):
    """A route whose function is called directly if all that it takes is its request and an authorised body.

    Dependencies that a router adds to the routes that it includes are not called: no router of the gateway has any.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the coroutine function that answers a request of the route; FastAPI calls this at start-up."""
        function, request_name = self.dependant.call, self.dependant.request_param_name
        body = _only_body(self.dependant)
        if function is None or request_name is None or body is None:
            return super().get_route_handler()
        name, security = body

        async def handle(request: Request) -> Response:
            response: Response = await function(**{request_name: request, name: await security(request)})
            return response

        return handle


def _only_body(dependant: Dependant) -> tuple[str, BodySecurity[Any]] | None:
    """Return the parameter and the dependency of a route's body; `None` if its function takes more than its request."""
    others = (
        dependant.path_params,
        dependant.query_params,
        dependant.header_params,
        dependant.cookie_params,
        dependant.body_params,
        dependant.response_param_name,
        dependant.background_tasks_param_name,
        dependant.http_connection_param_name,
        dependant.security_scopes_param_name,
    )
    if any(others) or len(dependant.dependencies) != 1:
        return None
    (dependency,) = dependant.dependencies
    if dependency.name is None or not isinstance(dependency.call, BodySecurity):
        return None
    return dependency.name, dependency.call
