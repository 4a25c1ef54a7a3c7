//! The client's side of `/api/v2/schedules`.

use super::{Client, ClientError};
use crate::{RunNowAnswer, ScheduleAnswer, ScheduleList, ScheduleRequest, ScheduleRow};

impl Client {
    pub async fn schedules(&self) -> Result<ScheduleList, ClientError> {
        self.get("/api/v2/schedules", &()).await
    }

    /// One job with its newest slots.
    pub async fn schedule(&self, id: i64) -> Result<ScheduleRow, ClientError> {
        self.get(&format!("/api/v2/schedules/{id}"), &()).await
    }

    pub async fn create_schedule(&self, request: &ScheduleRequest) -> Result<ScheduleAnswer, ClientError> {
        self.post("/api/v2/schedules", request).await
    }

    /// When it would fire, without making it.
    pub async fn preview_schedule(&self, request: &ScheduleRequest) -> Result<ScheduleAnswer, ClientError> {
        self.post("/api/v2/schedules/preview", request).await
    }

    /// Changes what the request names; the rest stays.
    pub async fn update_schedule(
        &self,
        id: i64,
        request: &ScheduleRequest,
    ) -> Result<ScheduleAnswer, ClientError> {
        self.post(&format!("/api/v2/schedules/{id}"), request).await
    }

    pub async fn pause_schedule(&self, id: i64) -> Result<ScheduleAnswer, ClientError> {
        self.command(&format!("/api/v2/schedules/{id}/pause")).await
    }

    pub async fn resume_schedule(&self, id: i64) -> Result<ScheduleAnswer, ClientError> {
        self.command(&format!("/api/v2/schedules/{id}/resume")).await
    }

    pub async fn delete_schedule(&self, id: i64) -> Result<ScheduleAnswer, ClientError> {
        self.command(&format!("/api/v2/schedules/{id}/delete")).await
    }

    /// Fires once now, beside the schedule.
    pub async fn run_schedule(&self, id: i64) -> Result<RunNowAnswer, ClientError> {
        self.command(&format!("/api/v2/schedules/{id}/run")).await
    }
}
